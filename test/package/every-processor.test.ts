/** What is true on this processor is true with every CPU back end of ggml that runs here, and under an emulator. */
import { onProcessors, x64 } from './on-processors.js';

x64('the selftest holds with every back end that runs here', () => void onProcessors(), 3_600_000);

x64(
  'the selftest holds on processors that have less than any of today',
  () => {
    onProcessors('--emulate', 'Nehalem,IvyBridge,Haswell');
  },
  3_600_000,
);

x64(
  'parity, sampling and training hold in every arithmetic',
  () => {
    onProcessors(
      '--processors',
      'x64,ivybridge,haswell,skylakex,zen4',
      'test/engine/parity',
      'test/engine/generate',
      'test/training',
      'test/package/coexistence',
    );
  },
  7_200_000,
);

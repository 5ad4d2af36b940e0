/**
 * Worker thread around node-llama-cpp's downloader. A thread because that downloader retries a vanished server for
 * minutes and cannot be called off while it waits: ending the thread ends it, whatever it is doing.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { createModelDownloader } from 'node-llama-cpp';

export interface DownloadJob {
  readonly url: string;
  readonly folder: string;
  readonly fileName: string;
}

export type DownloadMessage = { downloadedBytes: number } | { finished: true } | { failure: string };

const PROGRESS_MS = 100;

const { url, folder, fileName } = workerData as DownloadJob;
const post = (message: DownloadMessage): void => parentPort?.postMessage(message);

let posted = -Infinity;
try {
  const downloader = await createModelDownloader({
    modelUri: url,
    dirPath: folder,
    fileName,
    showCliProgress: false,
    deleteTempFileOnCancel: false,
    skipExisting: false,
    onProgress: ({ downloadedSize }) => {
      const now = performance.now();
      if (now - posted < PROGRESS_MS) return;
      posted = now;
      post({ downloadedBytes: downloadedSize });
    },
  });
  await downloader.download();
  post({ finished: true });
} catch (error) {
  post({ failure: error instanceof Error ? error.message : String(error) });
}

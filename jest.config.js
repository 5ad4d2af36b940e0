/**
 * Tests are TypeScript and import `../../src/…`; they run against what `npm run build:ts` wrote to dist/, so that
 * worker threads, the command line and the addon are tested exactly as they ship.
 */
export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'es6' } }] },
  moduleNameMapper: {
    '^(?:\\.\\./)+(src|bench)/(.*)\\.js$': '<rootDir>/dist/$1/$2.js',
    '^\\./fixtures\\.js$': './fixtures.ts',
    '^(?:\\.\\.?/)+models/(.*)\\.js$': '<rootDir>/dist/test/models/$1.js',
    '^(?:\\.\\.?/)+(?:cli/)?run-cli\\.js$': '<rootDir>/test/cli/run-cli.ts',
  },
  maxWorkers: 1,
  testTimeout: 120_000,
};

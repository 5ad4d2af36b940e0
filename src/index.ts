/** The public API of isopro-native. Anything that is not exported here may change without notice. */
export { ERRORS, IsoproError, type ErrorCode } from './errors.js';
export { deriveSeed, Random, splitmix64, type DrawKey } from './random.js';

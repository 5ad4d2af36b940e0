import path from 'node:path';
import { homeFolder } from '../src/engine/model-location.js';
import { shapeFile, type ShapeName } from '../test/models/shapes.js';

/** A file of a real model's shape with random weights, made on first use in the cache folder. */
export function benchModel(shape: ShapeName): string {
  return shapeFile(path.join(homeFolder(), 'bench'), shape);
}

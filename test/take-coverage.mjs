/** At the end of each suite, V8's counters are written to NODE_V8_COVERAGE. */
import { takeCoverage } from 'node:v8';
import { afterAll } from '@jest/globals';

afterAll(takeCoverage);

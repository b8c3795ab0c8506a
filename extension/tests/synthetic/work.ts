// How much a computation does, told by the blocks of the front end's code that it runs: a figure
// that is the same on every machine, however busy. To be imported before what it counts, for code
// is counted that was not compiled before.

import type { Profiler } from 'node:inspector';
import { Session } from 'node:inspector';
import { setFlagsFromString } from 'node:v8';

const session = new Session();
session.connect();

function post<T>(method: string, params: object = {}): T {
  let found: T | undefined;
  let failed: Error | null = null;
  // Answers of a session in the same thread are there at once.
  session.post(method, params, (error, result) => {
    failed = error;
    found = result as T;
  });
  if (failed) throw failed as Error;
  return found as T;
}

function start(): void {
  post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
}

post('Profiler.enable');
start();

/** Runs it and counts the blocks (bodies of functions, loops and branches) of src that ran. */
export function workOf(computation: () => void): number {
  const taken = (): number =>
    post<Profiler.TakePreciseCoverageReturnType>('Profiler.takePreciseCoverage')
      .result.filter(({ url }) => url.includes('/extension/src/'))
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
      .reduce((sum, { count }) => sum + count, 0);
  // What V8 has optimized does not count its calls, and when it optimizes is chance.
  setFlagsFromString('--no-opt');
  try {
    start();
    // Taking sets the counters back.
    taken();
    computation();
    return taken();
  } finally {
    setFlagsFromString('--opt');
  }
}

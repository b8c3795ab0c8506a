// Opens a profile's file in a worker; where none can be started, in the page itself.

import type { Opened, Progress } from './open';
import { openProfile } from './open';
import source from './worker_source';

type Reply = { opened: Opened } | { error: string } | { progress: Progress };

/** What was read; rejects with an Error whose message can be shown as it is. */
export function readProfile(
  file: Blob,
  progress: (done: Progress) => void,
  signal: AbortSignal
): Promise<Opened> {
  const started = start();
  if (!started) {
    return openProfile(file, progress);
  }
  const { worker, url } = started;
  return new Promise<Opened>((done, failed) => {
    const end = (): void => {
      worker.terminate();
      URL.revokeObjectURL(url);
    };
    signal.addEventListener('abort', end);
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      if ('progress' in data) {
        progress(data.progress);
        return;
      }
      end();
      if ('opened' in data) done(data.opened);
      else failed(new Error(data.error));
    };
    // A policy that forbids blob workers is told here, not by the constructor.
    worker.onerror = () => {
      end();
      openProfile(file, progress).then(done, failed);
    };
    worker.postMessage(file);
  });
}

function start(): { worker: Worker; url: string } | null {
  if (typeof Worker !== 'function' || typeof URL.createObjectURL !== 'function') {
    return null;
  }
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  try {
    return { worker: new Worker(url), url };
  } catch {
    URL.revokeObjectURL(url);
    return null;
  }
}

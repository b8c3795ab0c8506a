// The thread in which files of profiles are read and their levels built. Bundled into a string and
// started from a blob, as the layout's is.

import { buffersOf } from '../../model/profile/profile';
import { buffersOfLanes } from './lanes';
import { openProfile } from './open';

interface Port {
  onmessage: ((event: MessageEvent<Blob>) => void) | null;
  postMessage(message: unknown, transfer?: Transferable[]): void;
}

const port = self as unknown as Port;

port.onmessage = ({ data }) => {
  void openProfile(data, progress => port.postMessage({ progress })).then(
    opened =>
      port.postMessage({ opened }, [
        ...new Set([...buffersOf(opened.profile), ...buffersOfLanes(opened.lanes)])
      ]),
    (error: unknown) =>
      port.postMessage({ error: error instanceof Error ? error.message : String(error) })
  );
};

// A question of one panel to the kernel: asked again when its key changes; until the new answer is
// there the one before stays.

import { useEffect, useState } from 'react';
import type { Answer } from './answers';
import { useInspector } from './presenter';

/** While there is nobody who could answer, nothing is asked, and what is known stays. */
export function useRequest<T>(question: string, request: () => Promise<T>): Answer<T> {
  const key = useInspector().answering ? question : '';
  const [reply, setReply] = useState<Answer<T>>({ kind: 'waiting' });
  useEffect(() => {
    if (key === '') {
      return undefined;
    }
    let current = true;
    request().then(
      value => {
        if (current) setReply({ kind: 'answer', value });
      },
      (error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        if (current) setReply({ kind: 'none', why });
      }
    );
    return () => {
      current = false;
    };
    // The key says all that the question depends on.
  }, [key]);
  return reply;
}

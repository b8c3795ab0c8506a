// A standalone page's address: a lesson is read from its fragment, and what the reader sets is
// written back, so that a reload or a copied address shows the same.

import type { Disposable } from '../protocol/signal';
import { readFragment, writeFragment } from '../protocol/lesson';
import type { Presenter } from './presenter';

/** The fragment is written so long after the last change. */
const CALM_MS = 400;

export function followAddress(presenter: Presenter): Disposable {
  const { teaching } = presenter;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let written = '';
  const take = (): void => {
    if (location.hash === written) {
      return;
    }
    const { lesson, ignored } = readFragment(location.hash);
    if (lesson) {
      teaching.take(lesson, ignored);
      written = location.hash;
    }
  };
  const write = (): void => {
    const now = writeFragment(teaching.here());
    // A page without a lesson keeps a plain address until something is set that a link can say.
    if (now === written || (written === '' && !teaching.isSet)) {
      return;
    }
    written = now;
    try {
      history.replaceState(history.state, '', now);
    } catch {
      // Pages inside of other pages may have no address to write: nothing is lost but the comfort.
    }
  };
  presenter.lessonLink = () =>
    `${location.href.replace(/#.*$/, '')}${writeFragment(teaching.here())}`;
  take();
  addEventListener('hashchange', take);
  const stop = presenter.drawing.subscribe(() => {
    clearTimeout(timer);
    timer = setTimeout(write, CALM_MS);
  });
  return {
    dispose: () => {
      clearTimeout(timer);
      stop();
      removeEventListener('hashchange', take);
      presenter.lessonLink = null;
    }
  };
}

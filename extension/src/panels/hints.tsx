// Hints below the problems: what did not fail and is worth a look, each with a way to its moment.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import { KIND_SIGNS as GRADIENT_SIGNS } from '../model/gradient_kind';
import { hintsOf } from '../model/hints';
import { useInspector } from './presenter';
import { SourceLink, Words } from './source_link';

const KIND_SIGNS = { ...GRADIENT_SIGNS, detached: '⁄⁄' };
const SHOW = {
  nonfinite: 'Jump to the first NaN',
  zero: 'Show this moment',
  detached: 'Show the node'
};

export function Hints(): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const { axis, graph, store } = model;
  const { breaks, hooks } = store;
  const hints = useMemo(() => hintsOf(model), [model, axis, graph, hooks.rows, breaks.rows]);
  if (hints.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Worth a look</div>
      <ul className="agv-hints">
        {hints.map(({ kind, title, detail, seq, moment, site: own }) => {
          const site = own ?? model.siteOf(seq);
          return (
            <li key={`${kind} ${seq} ${title}`}>
              <span className="agv-hint-sign" data-kind={kind} aria-hidden="true">
                {KIND_SIGNS[kind]}
              </span>
              <div>
                <Words text={title} length={200} />
                {site && (
                  <>
                    {' ('}
                    <SourceLink site={site} />)
                  </>
                )}
                {kind === 'nonfinite' && !title.includes('hook') ? ', ' : ' '}
                <Words text={detail} length={300} />{' '}
                <button
                  type="button"
                  className="agv-link"
                  onClick={event => {
                    // The button goes with its tab; keys go on through time from here.
                    const root = event.currentTarget.closest('.agv-root');
                    if (kind !== 'detached')
                      model.scrub(moment >= model.length && presenter.live ? null : moment);
                    presenter.tab.set('node');
                    presenter.goTo(seq);
                    root?.querySelector<HTMLElement>('.agv-graph')?.focus({ preventScroll: true });
                  }}
                >
                  {SHOW[kind]}
                </button>
              </div>
            </li>
          );
        })}
      </ul>
    </>
  );
}

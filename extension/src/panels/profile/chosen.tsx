// The chosen slice in words: its times, its like, its node and line.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import { oneLine } from '../../protocol/text';
import { countText } from '../../model/format';
import type { Site } from '../../protocol/schema';
import type { LinePlace, Profile } from '../../model/profile/profile';
import { HUE_NAMES, Hue, lengthOf, partners } from '../../model/profile/profile';
import { lengthText } from '../../draw/profile/view';
import { useCell, useInspector } from '../presenter';
import { SourceLink } from '../source_link';
import type { OpenProfile } from './timing';

/** How often what has its name ran, and how long in all. */
function like(profile: Profile, row: number): { count: number; total: number } {
  const { name, count, hue } = profile;
  let [found, total] = [0, 0];
  for (let i = 0; i < count; i++) {
    if (name[i] === name[row] && hue[i] !== Hue.made) {
      found++;
      total += lengthOf(profile, i);
    }
  }
  return { count: found, total };
}

function siteOf({ cell, execution, line, text }: LinePlace, where: string): Site {
  const at = { line, col: 0, end_line: line, end_col: 0, text, source_line: text };
  const whose = { file: '', cell_id: cell, execution_count: execution };
  return { ...at, ...whose, kind: 'cell', function: '', where };
}

export function Chosen({ open: { profile } }: { open: OpenProfile }): ReactElement | null {
  const { timing, model } = useInspector();
  const row = useCell(timing.selected);
  const same = useMemo(() => (row === null ? null : like(profile, row)), [profile, row]);
  if (row === null || same === null) {
    return null;
  }
  const seq = timing.nodeOf(row);
  const site = seq === null ? null : model.store.siteOf(seq);
  const line = profile.texts[profile.line[row]];
  const place = profile.places.get(profile.line[row]);
  const note = profile.texts[profile.note[row]];
  const track = profile.tracks[profile.track[row]];
  const length = lengthOf(profile, row);
  const paused = profile.end[row] - profile.start[row] - length;
  const facts: [string, ReactElement | string][] = [
    ['Total', lengthText(length)],
    ['Self', lengthText(profile.own[row])],
    ['Begins at', lengthText(profile.start[row] - profile.from)],
    [
      'Of this name',
      same.count > 0
        ? `${countText(same.count)}, average ${lengthText(same.total / same.count)}`
        : 'none ran'
    ],
    ['Kind', `${HUE_NAMES[profile.hue[row]]}, in ${track?.name ?? ''}`]
  ];
  if (paused > 0) facts.push(['Paused', `${lengthText(paused)}, not counted`]);
  if (note) facts.push(['Inputs', oneLine(note, 200)]);
  if (site) facts.push(['Line', <SourceLink site={site} />]);
  else if (place) facts.push(['Line', <SourceLink site={siteOf(place, line)} />]);
  else if (line) facts.push(['Line', oneLine(line, 200)]);
  for (const other of partners(profile, row).slice(0, 3)) {
    facts.push([
      profile.forward[row] === other ? 'Backward of' : 'Runs backward as',
      <button type="button" className="agv-link" onClick={() => timing.select(other, true)}>
        {oneLine(profile.names[profile.name[other]] ?? '', 100)}
      </button>
    ]);
  }
  if (seq !== null) {
    facts.push([
      'Node',
      <button type="button" className="agv-link" onClick={() => timing.toNode(row)}>
        {oneLine(model.store.nameOf(seq), 80)} in the graph
      </button>
    ]);
  }
  return (
    <section className="agv-timing-chosen" aria-live="polite">
      <h2>{profile.names[profile.name[row]] ?? '(no name)'}</h2>
      <dl>
        {facts.map(([name, value], i) => (
          <div key={i}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

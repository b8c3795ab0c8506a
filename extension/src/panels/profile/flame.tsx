// A span as calls in calls: like calls of like callers added up, the longest at the left. The table
// beside it says the same in words.

import type { ReactElement } from 'react';
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import { plural } from '../../model/format';
import type { Call } from '../../model/profile/summary';
import { readTimeColours } from '../../draw/profile/colours';
import type { Box } from '../../draw/profile/flame_painter';
import { FLAME_ROW, flameBoxes, paintFlame } from '../../draw/profile/flame_painter';
import { lengthText } from '../../draw/profile/view';
import { prepare } from '../../draw/value_painter';
import { useCell, usePresenter } from '../presenter';
import { useWidth } from '../use_width';
import type { OpenProfile } from './timing';

const MOST_DEPTH = 40;

interface FlameProps {
  open: OpenProfile;
  root: Call;
}

export function Flame({ open: { profile }, root }: FlameProps): ReactElement {
  const presenter = usePresenter();
  const { timing } = presenter;
  const theme = useCell(presenter.theme);
  const [area, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const boxes = useRef<Box[]>([]);
  const [path, setPath] = useState<Call[]>([]);
  const [over, setOver] = useState<Call | null>(null);
  useEffect(() => setPath([]), [root]);
  const top = path[path.length - 1] ?? root;
  useLayoutEffect(() => {
    const [element, host] = [canvas.current, area.current];
    if (!element || !host || width === 0) {
      return;
    }
    boxes.current = flameBoxes(top, width, MOST_DEPTH);
    const depth = boxes.current.reduce((most, box) => Math.max(most, box.depth + 1), 1);
    const ctx = prepare(element, width, depth * FLAME_ROW);
    if (ctx) paintFlame(ctx, profile, boxes.current, readTimeColours(host), width, over);
  }, [profile, top, width, theme, over]);

  const at = (event: React.MouseEvent): Box | null => {
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const depth = Math.floor(y / FLAME_ROW);
    const hit = boxes.current.find(
      one => one.depth === depth && x >= one.x && x < one.x + one.width
    );
    return hit ?? null;
  };
  const shown = over ?? (path.length > 0 ? top : null);
  return (
    <div className="agv-timing-flame">
      <div className="agv-timing-flame-head">
        {path.length > 0 && (
          <button type="button" className="agv-link" onClick={() => setPath(path.slice(0, -1))}>
            Up
          </button>
        )}
        <span className="agv-elide">
          {shown
            ? `${profile.names[shown.name] ?? 'all'}: ${lengthText(shown.total)}, ` +
              `self ${lengthText(shown.self)}, ${plural(shown.count, 'call')}`
            : 'Calls in calls, the longest first. Click one to look into it.'}
        </span>
      </div>
      <div ref={area}>
        <canvas
          ref={canvas}
          aria-hidden="true"
          onPointerMove={event => setOver(at(event)?.call ?? null)}
          onPointerLeave={() => setOver(null)}
          onClick={event => {
            const hit = at(event);
            if (hit && hit.call !== top) setPath([...path, hit.call]);
            else if (hit && path.length > 0) setPath(path.slice(0, -1));
            if (hit && hit.call.name >= 0) timing.query.set(profile.names[hit.call.name] ?? '');
          }}
        />
      </div>
    </div>
  );
}

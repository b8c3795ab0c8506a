// Playing beside the debugger's controls: on or off, its pace, and predicting before each node.

import { SPEEDS } from '../protocol/lesson';
import { Menu } from './menu';
import type { Presenter } from './presenter';
import type { Item } from './tool_row';
import { Tool } from './tool_row';

export function speedText(speed: number): string {
  return `${speed === 0.25 ? '¼' : speed === 0.5 ? '½' : speed}×`;
}

const PACE: Record<number, string> = {
  0.25: 'a node in 2 s',
  0.5: 'a node in 1 s',
  1: '2 nodes a second',
  2: '4 nodes a second',
  4: '8 nodes a second',
  8: '16 nodes a second'
};

/** The buttons of playing, for the row: Play, its pace, Predict. */
export function playerItems(presenter: Presenter): Item[] {
  const { teaching, compact } = presenter;
  const { player, predictor } = teaching;
  if ((!player.possible && !player.playing) || !presenter.moments) {
    return [];
  }
  const { playing, speed, direction } = player;
  const items: Item[] = [];
  if (!presenter.hides('play')) {
    items.push({
      id: 'play',
      keep: compact && !playing ? 'menu' : 7,
      element: (
        <Tool
          icon={playing ? 'playing' : direction === 'back' ? 'playBack' : 'play'}
          label={playing ? (predictor.asking ? 'Waits for you' : 'Playing') : 'Play'}
          pressed={playing}
          title={
            playing
              ? 'Stop playing (K)'
              : presenter.paused
                ? 'Step by itself, until a breakpoint or any other control (K)'
                : 'Go through the moments by itself (K)'
          }
          run={() => player.toggle()}
        />
      )
    });
    items.push({
      id: 'pace',
      keep: compact ? 'menu' : 3,
      element: (
        <Menu
          label={speedText(speed)}
          about="Pace"
          title={`Pace of playing: ${speedText(speed)}`}
          side="left"
        >
          {close =>
            SPEEDS.map(one => (
              <button
                key={one}
                type="button"
                aria-pressed={one === speed}
                onClick={() => (player.setSpeed(one), close())}
              >
                {one === speed ? '● ' : '○ '}
                {speedText(one)} <small>{PACE[one]}</small>
              </button>
            ))
          }
        </Menu>
      )
    });
  }
  if (!presenter.hides('predict')) {
    items.push({
      id: 'predict',
      keep: compact && !predictor.on ? 'menu' : 6,
      element: (
        <Tool
          icon="predict"
          label="Predict"
          pressed={predictor.on}
          title={
            predictor.on
              ? 'Show gradients without guessing them (Q)'
              : 'Guess each gradient before it is shown (Q)'
          }
          run={() => teaching.setPredict(!predictor.on)}
        />
      )
    });
  }
  return items;
}

// Playing beside the debugger's controls: on or off, its pace, and predicting before each node.

import type { ReactElement } from 'react';
import { SPEEDS } from '../protocol/lesson';
import { Menu } from './menu';
import { useInspector } from './presenter';

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

function Icon({ playing, back }: { playing: boolean; back: boolean }): ReactElement {
  return (
    <svg width="10" height="10" aria-hidden="true">
      {playing ? (
        <rect x="1.5" y="1.5" width="7" height="7" fill="currentColor" />
      ) : (
        <path d={back ? 'M9 1 L2 5 L9 9 Z' : 'M1.5 1 L8.5 5 L1.5 9 Z'} fill="currentColor" />
      )}
    </svg>
  );
}

export function PlayerControls(): ReactElement | null {
  const presenter = useInspector();
  const { teaching } = presenter;
  const { player, predictor } = teaching;
  const canPlay = !presenter.hides('play');
  const canPredict = !presenter.hides('predict');
  if (!player.possible && !player.playing) {
    return null;
  }
  const { playing, speed } = player;
  return (
    <>
      {canPlay && (
        <button
          type="button"
          className="agv-btn agv-play"
          aria-pressed={playing}
          onClick={() => player.toggle()}
          title={
            playing
              ? 'Stop playing (K)'
              : presenter.paused
                ? 'Step by itself, until a breakpoint or any other control (K)'
                : 'Go through the moments by itself (K)'
          }
        >
          <Icon playing={playing} back={player.direction === 'back'} />
          {playing ? (predictor.asking ? 'Waits for you' : 'Playing') : 'Play'}
        </button>
      )}
      {(canPlay || canPredict) && (
        <Menu
          label={speedText(speed)}
          title={`Pace of playing: ${speedText(speed)}. Predicting: ${predictor.on ? 'on' : 'off'}`}
          side="left"
        >
          {close => (
            <>
              {canPlay &&
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
                ))}
              {canPlay && canPredict && <hr />}
              {canPredict && (
                <button
                  type="button"
                  aria-pressed={predictor.on}
                  onClick={() => (teaching.setPredict(!predictor.on), close())}
                >
                  {predictor.on ? '☑ ' : '☐ '}Predict each gradient
                  <small>it is hidden until you guess it (Q)</small>
                </button>
              )}
            </>
          )}
        </Menu>
      )}
    </>
  );
}

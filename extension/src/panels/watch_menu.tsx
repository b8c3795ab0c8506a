// What is recorded without asking: a choice that is remembered.

import type { ReactElement } from 'react';
import type { Cell } from '../protocol/cell';
import type { Watching } from '../protocol/controller';
import { Menu } from './menu';
import { useCell, useInspector } from './presenter';

const CHOICES: readonly { choice: Watching; name: string; says: string }[] = [
  { choice: 'newest', name: 'Newest pass', says: 'each backward() as it runs, at next to no cost' },
  { choice: 'everything', name: 'Everything', says: 'as with Record, in every kernel from now on' },
  { choice: 'off', name: 'Off', says: 'nothing until you press Record' }
];

function Choices({ watching }: { watching: Cell<Watching> }): ReactElement {
  const chosen = useCell(watching);
  const { name } = CHOICES.find(({ choice }) => choice === chosen) ?? CHOICES[0];
  return (
    <Menu label="Watch" icon="down" title={`Shown without asking: ${name}`} side="left" bare>
      {close =>
        CHOICES.map(({ choice, name, says }) => (
          <button
            key={choice}
            type="button"
            aria-pressed={choice === chosen}
            onClick={() => (watching.set(choice), close())}
          >
            {choice === chosen ? '● ' : '○ '}
            {name} <small>{says}</small>
          </button>
        ))
      }
    </Menu>
  );
}

export function WatchMenu(): ReactElement | null {
  const { watching } = useInspector().controller;
  return watching ? <Choices watching={watching} /> : null;
}

// A lesson as the page knows it: read from the kernel's state, a recording or the page's address,
// and written back into one. Pure; names and meaning: ag_visual/observe/record/lesson.py.

import type { Control, Lesson } from './schema';
import { CONTROLS } from './schema';
import { cut } from './text';

export const LONGEST_TEXT = 600;
const LONGEST_TITLE = 120;
const ABOUT = ['title', 'author', 'date'] as const;

export const NO_LESSON: Lesson = {
  text: '',
  hide: [],
  node: '',
  step: null,
  predict: false,
  scalars: false,
  speed: 1,
  direction: 'on'
};

export const SPEEDS: readonly number[] = [0.25, 0.5, 1, 2, 4, 8];

/** The speed of the list that is nearest. */
export function nearestSpeed(speed: number): number {
  const distance = (s: number): number => Math.abs(Math.log(s / speed));
  return SPEEDS.reduce((best, s) => (distance(s) < distance(best) ? s : best), 1);
}

/** Milliseconds between two nodes: 2 s at a quarter, 60 ms at eight times. */
export function pauseFor(speed: number): number {
  return Math.round(500 / speed) - (speed >= 8 ? 2 : 0);
}

function isControl(name: string): name is Control {
  return (CONTROLS as readonly string[]).includes(name);
}

export interface ReadLesson {
  /** null: the address holds none */
  lesson: Lesson | null;
  /** what was not understood, as sentences */
  ignored: string[];
}

/** Reads '#lesson=...&hide=a,b&predict=on'. Foreign fragments are no lesson and no mistake. */
export function readFragment(fragment: string): ReadLesson {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ''));
  if (!parameters.has('lesson')) {
    return { lesson: null, ignored: [] };
  }
  const lesson: Lesson = { ...NO_LESSON, hide: [] };
  const ignored: string[] = [];
  const say = (what: string): void => {
    ignored.push(cut(what, 80));
  };
  const switched = (key: string, value: string): boolean => {
    if (!['on', 'off', ''].includes(value)) say(`${key}=${value} (on or off)`);
    return value === 'on' || value === '';
  };
  for (const [key, value] of parameters) {
    if (key === 'lesson') lesson.text = cut(value, LONGEST_TEXT);
    else if (key === 'hide') {
      for (const name of value.split(',').filter(Boolean)) {
        if (!isControl(name)) say(`hide=${name}`);
        else if (!lesson.hide.includes(name)) lesson.hide.push(name);
      }
    } else if (key === 'title' || key === 'author' || key === 'date') {
      lesson[key] = cut(value, LONGEST_TITLE);
    } else if (key === 'node') lesson.node = cut(value, 200);
    else if (key === 'step') {
      const step = Number(value);
      if (Number.isInteger(step) && step >= 1) lesson.step = step;
      else say(`step=${value} (1 or more)`);
    } else if (key === 'predict') lesson.predict = switched(key, value);
    else if (key === 'scalars') lesson.scalars = switched(key, value);
    else if (key === 'speed') {
      const speed = Number(value);
      if (speed >= 0.25 && speed <= 8) lesson.speed = speed;
      else say(`speed=${value} (0.25 to 8)`);
    } else if (key === 'direction') {
      if (value === 'on' || value === 'back') lesson.direction = value;
      else say(`direction=${value} (on or back)`);
    } else say(key);
  }
  return { lesson, ignored };
}

/** What `readFragment` reads, with nothing in it that is as usual. */
export function writeFragment(lesson: Lesson): string {
  const parts = [`lesson=${encodeURIComponent(lesson.text)}`];
  const add = (key: string, value: string): void => {
    if (value) parts.push(`${key}=${encodeURIComponent(value).replace(/%2C/g, ',')}`);
  };
  add('hide', lesson.hide.join(','));
  add('node', lesson.node);
  add('step', lesson.step === null ? '' : String(lesson.step));
  add('predict', lesson.predict ? 'on' : '');
  add('scalars', lesson.scalars ? 'on' : '');
  add('speed', lesson.speed === 1 ? '' : String(lesson.speed));
  add('direction', lesson.direction === 'on' ? '' : lesson.direction);
  for (const key of ABOUT) add(key, lesson[key] ?? '');
  return `#${parts.join('&')}`;
}

/** A lesson as it came with a state or a recording; what is not understood is left out. */
export function readLesson(value: unknown): Lesson | null {
  if (typeof value !== 'object' || value === null) {
    return null;
  }
  const given = value as Record<string, unknown>;
  const { text, hide, node, step, predict, scalars, speed, direction } = given;
  const about: Partial<Lesson> = {};
  for (const key of ABOUT) {
    const said = given[key];
    if (typeof said === 'string' && said) about[key] = cut(said, LONGEST_TITLE);
  }
  return {
    ...about,
    text: typeof text === 'string' ? cut(text, LONGEST_TEXT) : '',
    hide: Array.isArray(hide) ? hide.map(String).filter(isControl) : [],
    node: typeof node === 'string' ? cut(node, 200) : '',
    step: typeof step === 'number' && step >= 1 ? Math.round(step) : null,
    predict: predict === true,
    scalars: scalars === true,
    speed: typeof speed === 'number' && speed >= 0.25 && speed <= 8 ? speed : 1,
    direction: direction === 'back' ? 'back' : 'on'
  };
}

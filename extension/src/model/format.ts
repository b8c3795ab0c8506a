// Numbers, shapes and places in the words that every panel uses. Pure.

import type { Site } from '../protocol/schema';
import { oneLine } from '../protocol/text';

/** '64×128' or [64, 128] -> '[64, 128]', as torch writes it; a scalar says so. */
export function shapeText(shape: string | readonly number[]): string {
  const text = typeof shape === 'string' ? oneLine(shape, 80) : shape.slice(0, 12).join('×');
  return text === '' ? 'scalar' : `[${text.replaceAll('×', ', ')}]`;
}

export function bytesText(bytes: number): string {
  if (!Number.isFinite(bytes) || bytes < 0) {
    return '';
  }
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let size = bytes;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  const digits = unit === 0 || size >= 10 || Number.isInteger(size) ? 0 : 1;
  return `${size.toFixed(digits)} ${units[unit]}`;
}

/** Three significant digits, a real minus sign, 'NaN' and '∞' spelled out. */
export function numberText(value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return 'none';
  }
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? '∞' : '−∞';
  }
  if (value === 0) {
    return '0';
  }
  const size = Math.abs(value);
  const text =
    size >= 1e5 || size < 1e-4
      ? value.toExponential(2).replace('e+', 'e')
      : Number.isInteger(value)
        ? String(value)
        : String(Number(value.toPrecision(3)));
  return text.replaceAll('-', '−');
}

/** The same in at most so many characters, with fewer digits where three are too long. */
export function shortText(value: number | null | undefined, most: number): string {
  const text = numberText(value);
  if (text.length <= most || !Number.isFinite(value)) {
    return text;
  }
  const [one, none] = [1, 0].map(digits =>
    Number(value).toExponential(digits).replace('e+', 'e').replaceAll('-', '−')
  );
  return one.length <= most ? one : none;
}

/** The same as a factor or summand: a negative one in parentheses. */
export function signedText(value: number | null | undefined): string {
  const text = numberText(value);
  return text.startsWith('−') ? `(${text})` : text;
}

export function countText(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** Milliseconds as a reader says them. */
export function durationText(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) {
    return '';
  }
  if (ms < 0.1) {
    return `${(ms * 1000).toFixed(0)} µs`;
  }
  if (ms < 1000) {
    return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  }
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`;
}

/** 'In[4] line 2' or 'train.py line 2'. */
export function placeText(site: Site): string {
  if (site.kind === 'cell') {
    const cell = site.execution_count === null ? 'cell' : `In[${site.execution_count}]`;
    return `${cell} line ${site.line}`;
  }
  const name = site.file.split(/[\\/]/).pop() ?? site.file;
  return `${oneLine(name, 60)} line ${site.line}`;
}

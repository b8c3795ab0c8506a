// The scale of colours: lightness alone tells its steps apart, and text can be read on each.

import { describe, expect, it } from 'vitest';
import { rampOf, stepOf } from '../../src/draw/ramp';
import { CSS } from '../../src/panels/style';

function stops(theme: string): string[] {
  return [...theme.matchAll(/--agv-ramp\d: (#[0-9a-f]{6})/g)].map(([, hex]) => {
    const [r, g, b] = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
    return `rgb(${r}, ${g}, ${b})`;
  });
}

function luminance(colour: string): number {
  const found = colour.startsWith('#')
    ? [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16))
    : (colour.match(/\d+/g) ?? []).map(Number);
  const [r, g, b] = found.map(part =>
    part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const both = stops(CSS);

describe.each([
  ['light', both.slice(0, 5), -1],
  ['dark', both.slice(5), 1]
])('the %s ramp', (_, colours, sign) => {
  it('goes one way in lightness, away from the ground', () => {
    expect(colours).toHaveLength(5);
    const steps = rampOf(colours).map(({ fill }) => sign * luminance(fill));
    for (let i = 1; i < steps.length; i++) expect(steps[i]).toBeGreaterThan(steps[i - 1]);
  });

  it('has an ink of contrast 4.5 on each step', () => {
    for (const { fill, ink } of rampOf(colours)) {
      const [a, b] = [luminance(fill), luminance(ink)].sort((p, q) => q - p);
      expect((a + 0.05) / (b + 0.05)).toBeGreaterThanOrEqual(4.5);
    }
  });
});

it('gives no step to what has no place', () => {
  expect([-1, 0, 0.5, 1].map(stepOf)).toEqual([-1, 0, 12, 24]);
});

// Values as a heat map or a histogram on a canvas, each with its words for those who do not see it.

import type { ReactElement } from 'react';
import { useEffect, useRef } from 'react';
import type { Histogram, Picture, Values } from '../protocol/schema';
import { numberText, plural } from '../model/format';
import { readPalette } from '../draw/palette';
import { fillHeight, heatSize, paintHeat, paintHistogram, prepare } from '../draw/value_painter';
import { useCell, usePresenter } from './presenter';
import { useWidth } from './use_width';

const HISTOGRAM_HEIGHT = 46;

/** 'between −0.003 and 0.0027, mean 0.0001, 12 % zero' */
export function summaryText(values: Values): string {
  if (values.numel === 0) {
    return 'no elements';
  }
  const parts: string[] = [];
  if (values.min !== null && values.max !== null) {
    const [least, most] = [numberText(values.min), numberText(values.max)];
    if (values.min === values.max) parts.push(`all ${least}`);
    else if (least === most) parts.push(`all about ${least}`);
    else parts.push(`from ${least} to ${most}, mean ${numberText(values.mean)}`);
  }
  const of = Math.max(1, values.sampled || values.numel);
  if (values.zero > 0) parts.push(`${percent(values.zero / of)} zero`);
  if (values.nan > 0) parts.push(plural(values.nan, 'NaN', 'NaN'));
  if (values.inf > 0) parts.push(plural(values.inf, 'infinite value'));
  if (values.sampled > 0 && values.sampled < values.numel)
    parts.push(`from a sample of ${values.sampled}`);
  return parts.join(', ');
}

export function percent(share: number): string {
  const value = 100 * share;
  return `${value > 0 && value < 1 ? '<1' : Math.round(value)} %`;
}

export function HeatMap({
  picture,
  label,
  fill = false
}: {
  picture: Picture;
  label: string;
  /** as wide as there is room */
  fill?: boolean;
}): ReactElement {
  const theme = useCell(usePresenter().theme);
  const [ref, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current && width > 0) {
      const size = fill ? { width, height: fillHeight(picture, width) } : heatSize(picture, width);
      const ctx = prepare(canvas.current, size.width, size.height);
      const palette = readPalette(canvas.current.parentElement as HTMLElement);
      if (ctx) paintHeat(ctx, picture, palette, size.width, size.height);
    }
  }, [picture, width, theme, fill]);
  return (
    <div ref={ref}>
      <canvas ref={canvas} className="agv-picture" role="img" aria-label={label} />
    </div>
  );
}

export function HistogramView({
  histogram,
  label
}: {
  histogram: Histogram;
  label: string;
}): ReactElement | null {
  const theme = useCell(usePresenter().theme);
  const [ref, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const { counts, edges } = histogram;
  useEffect(() => {
    if (canvas.current && width > 0) {
      const ctx = prepare(canvas.current, width, HISTOGRAM_HEIGHT);
      const palette = readPalette(canvas.current.parentElement as HTMLElement);
      if (ctx) paintHistogram(ctx, histogram, palette, width, HISTOGRAM_HEIGHT);
    }
  }, [histogram, width, theme]);
  if (counts.length === 0 || edges.length !== counts.length + 1) {
    return null;
  }
  return (
    <div ref={ref} style={{ marginTop: 8 }}>
      <canvas
        ref={canvas}
        className="agv-picture"
        style={{ borderRadius: 0 }}
        role="img"
        aria-label={label}
      />
      <div className="agv-scale">
        <span>{numberText(edges[0])}</span>
        <span>{numberText(edges[edges.length - 1])}</span>
      </div>
    </div>
  );
}

// Formulas become MathML elements; what is no formula becomes dots, and text stays text.

import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { MathLine } from '../../src/panels/math';
import type { Math as Formula } from '../../src/protocol/schema';

const leaf = (tag: string, text: string): Formula => ({ tag, text });
const row = (...children: Formula[]): Formula => ({ tag: 'mrow', children });

function drawn(math: Formula): string {
  const html = renderToStaticMarkup(createElement(MathLine, { math, label: 'x' }));
  return html.slice(html.indexOf('<math'), html.indexOf('</div>'));
}

describe('MathLine', () => {
  it('draws fractions, powers and leaves', () => {
    const fraction = { tag: 'mfrac', children: [leaf('mn', '1'), leaf('mi', 'self')] };
    expect(drawn(row(fraction, leaf('mo', '+'), leaf('mn', '2')))).toBe(
      '<math displaystyle="true"><mrow><mfrac><mn>1</mn><mi>self</mi></mfrac>' +
        '<mo>+</mo><mn>2</mn></mrow></math>'
    );
  });

  it('knows a sign from a difference', () => {
    const minus = leaf('mo', '−');
    const x = leaf('mi', 'x');
    expect(drawn(row(minus, x))).toContain('<mo form="prefix">−</mo>');
    expect(drawn(row(leaf('mo', '('), minus, x, leaf('mo', ')'), minus, x))).toContain(
      '<mo>(</mo><mo form="prefix">−</mo><mi>x</mi><mo>)</mo><mo>−</mo>'
    );
  });

  it('keeps the text of a program text, and unknown elements out', () => {
    expect(drawn(leaf('mi', '<img src=x onerror=alert(1)>'))).toContain('&lt;img');
    expect(drawn({ tag: 'script', text: 'alert(1)' })).toBe(
      '<math displaystyle="true"><mtext>…</mtext></math>'
    );
    expect(drawn({ tag: 'mfrac', children: [leaf('mn', '1')] })).toContain('<mtext>…</mtext>');
  });

  it('stops at a depth that no formula has', () => {
    let deep: Formula = leaf('mn', '1');
    for (let i = 0; i < 500; i++) deep = row(deep);
    expect(drawn(deep)).toContain('…');
  });

  it('keeps the spaces that MathML drops', () => {
    expect(drawn(leaf('mtext', 'if '))).toContain('if\u00a0');
  });
});

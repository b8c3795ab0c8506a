// What a student types as a prediction: numbers and small expressions such as 2*3, 1/4 or
// -tanh(0.5)^2. A parser of our own, because text is never evaluated as a program. Pure.

const LONGEST = 200;
const DEEPEST = 30;

const CONSTANTS: Record<string, number> = { e: Math.E, pi: Math.PI, π: Math.PI };

const FUNCTIONS: Record<string, (x: number) => number> = {
  abs: Math.abs,
  cos: Math.cos,
  cosh: Math.cosh,
  exp: Math.exp,
  ln: Math.log,
  log: Math.log,
  relu: x => Math.max(0, x),
  sigmoid: x => 1 / (1 + Math.exp(-x)),
  sin: Math.sin,
  sinh: Math.sinh,
  sqrt: Math.sqrt,
  tan: Math.tan,
  tanh: Math.tanh
};

export type Worked = { kind: 'number'; value: number } | { kind: 'wrong'; why: string };

class Trouble extends Error {}

const TOKEN =
  /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|(\*\*|[-+*/^()])|([a-zπ]+))/y;

interface Token {
  kind: 'number' | 'sign' | 'word';
  text: string;
}

function tokens(text: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) {
      throw new Trouble(`“${text.slice(from).trim().slice(0, 12)}” is not understood.`);
    }
    const [, number, sign, word] = match;
    if (number !== undefined) found.push({ kind: 'number', text: number });
    else if (sign !== undefined) found.push({ kind: 'sign', text: sign === '**' ? '^' : sign });
    else found.push({ kind: 'word', text: word });
  }
  return found;
}

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly list: Token[]) {}

  whole(): number {
    const value = this.sum();
    if (this.at < this.list.length) {
      throw new Trouble(`“${this.list[this.at].text}” stands where nothing should follow.`);
    }
    return value;
  }

  private take(...signs: string[]): string | null {
    const token = this.list[this.at];
    if (token?.kind === 'sign' && signs.includes(token.text)) {
      this.at++;
      return token.text;
    }
    return null;
  }

  private sum(): number {
    if (++this.depth > DEEPEST) {
      throw new Trouble('There are too many parentheses.');
    }
    let value = this.product();
    for (let sign = this.take('+', '-'); sign; sign = this.take('+', '-')) {
      const next = this.product();
      value = sign === '+' ? value + next : value - next;
    }
    this.depth--;
    return value;
  }

  private product(): number {
    let value = this.signed();
    for (let sign = this.take('*', '/'); sign; sign = this.take('*', '/')) {
      const next = this.signed();
      value = sign === '*' ? value * next : value / next;
    }
    return value;
  }

  /** A sign binds less tightly than a power: -2^2 is -4. */
  private signed(): number {
    let negative = false;
    for (let sign = this.take('+', '-'); sign; sign = this.take('+', '-')) {
      negative = negative !== (sign === '-');
    }
    const value = this.power();
    return negative ? -value : value;
  }

  private power(): number {
    const base = this.atom();
    if (!this.take('^')) {
      return base;
    }
    if (++this.depth > DEEPEST) {
      throw new Trouble('There are too many powers.');
    }
    const value = base ** this.signed();
    this.depth--;
    return value;
  }

  private atom(): number {
    const token = this.list[this.at];
    if (token === undefined) {
      throw new Trouble('It ends where a number should follow.');
    }
    if (token.kind === 'number') {
      this.at++;
      return Number(token.text);
    }
    if (this.take('(')) {
      const value = this.sum();
      if (!this.take(')')) throw new Trouble('A parenthesis is not closed.');
      return value;
    }
    if (token.kind === 'word') {
      this.at++;
      const constant = Object.hasOwn(CONSTANTS, token.text) ? CONSTANTS[token.text] : undefined;
      if (constant !== undefined) return constant;
      const known = Object.hasOwn(FUNCTIONS, token.text) ? FUNCTIONS[token.text] : undefined;
      if (!known) throw new Trouble(`“${token.text.slice(0, 12)}” is not known here.`);
      if (!this.take('(')) throw new Trouble(`Write ${token.text}( … ) with parentheses.`);
      const value = this.sum();
      if (!this.take(')')) throw new Trouble('A parenthesis is not closed.');
      return known(value);
    }
    throw new Trouble(`A number should stand before “${token.text}”.`);
  }
}

/** The number that an expression stands for, or why it stands for none. */
export function work(text: string): Worked {
  if (text.trim() === '') {
    return { kind: 'wrong', why: 'Type a number, or something like 2*3.' };
  }
  if (text.length > LONGEST) {
    return { kind: 'wrong', why: 'This is too long.' };
  }
  const plain = text
    .toLowerCase()
    .replace(/[−–]/g, '-')
    .replace(/[×·]/g, '*')
    .replace(/÷/g, '/')
    .replace(/²/g, '^2')
    .trim();
  try {
    const value = new Parser(tokens(plain)).whole();
    return Number.isFinite(value)
      ? { kind: 'number', value }
      : { kind: 'wrong', why: 'This is not a finite number.' };
  } catch (error) {
    if (error instanceof Trouble) {
      return { kind: 'wrong', why: error.message };
    }
    throw error;
  }
}

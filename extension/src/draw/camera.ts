// Where the reader looks: world coordinates to screen pixels and back. Pure.

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export class Camera {
  /** screen = world * k + (x, y) */
  x = 0;
  y = 0;
  k = 1;
  width = 1;
  height = 1;
  static readonly CLOSEST = 2.5;
  static readonly FARTHEST = 0.0001;

  screenX(world: number): number {
    return world * this.k + this.x;
  }

  screenY(world: number): number {
    return world * this.k + this.y;
  }

  worldX(screen: number): number {
    return (screen - this.x) / this.k;
  }

  worldY(screen: number): number {
    return (screen - this.y) / this.k;
  }

  /** What is on screen, in world coordinates. */
  get view(): Box {
    return {
      x: this.worldX(0),
      y: this.worldY(0),
      width: this.width / this.k,
      height: this.height / this.k
    };
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
  }

  /** Zooms so that the world under this screen point stays there. */
  zoomAt(screenX: number, screenY: number, factor: number): void {
    const k = Math.min(Camera.CLOSEST, Math.max(Camera.FARTHEST, this.k * factor));
    this.x = screenX - ((screenX - this.x) / this.k) * k;
    this.y = screenY - ((screenY - this.y) / this.k) * k;
    this.k = k;
  }

  /** Shows all of a box, never larger than `closest`; `footer` pixels at the bottom stay free. */
  fit(box: Box, margin: number, footer = 0, closest = 1): void {
    const across = (this.width - 2 * margin) / Math.max(1, box.width);
    const down = (this.height - 2 * margin - footer) / Math.max(1, box.height);
    this.k = Math.min(closest, Math.max(Camera.FARTHEST, Math.min(across, down)));
    this.centre(box.x + box.width / 2, box.y + box.height / 2);
    this.y -= footer / 2;
  }

  centre(worldX: number, worldY: number): void {
    this.x = this.width / 2 - worldX * this.k;
    this.y = this.height / 2 - worldY * this.k;
  }

  /**
   * Pans as little as needed to bring a box into view, `margin` pixels from the border, `footer`
   * more at the bottom, and out of what is covered at both ends.
   */
  reveal(box: Box, margin: number, footer = 0, covered = { top: 0, bottom: 0 }): void {
    const mx = Math.min(margin, this.width / 4);
    const half = this.height / 2;
    const my = Math.max(Math.min(margin, this.height / 4), Math.min(covered.top, half));
    const under = Math.min(margin + footer, this.height / 3);
    const low = this.height - Math.max(under, Math.min(covered.bottom, half));
    const left = this.screenX(box.x);
    const right = this.screenX(box.x + box.width);
    const top = this.screenY(box.y);
    const bottom = this.screenY(box.y + box.height);
    if (left < mx) this.x += mx - left;
    else if (right > this.width - mx) this.x -= right - (this.width - mx);
    if (top < my) this.y += my - top;
    else if (bottom > low) this.y -= bottom - low;
  }

  /** Keeps at least a strip of the box on screen. */
  hold(box: Box): void {
    const strip = 60;
    this.x = Math.min(
      this.width - strip - box.x * this.k,
      Math.max(strip - (box.x + box.width) * this.k, this.x)
    );
    this.y = Math.min(
      this.height - strip - box.y * this.k,
      Math.max(strip - (box.y + box.height) * this.k, this.y)
    );
  }
}

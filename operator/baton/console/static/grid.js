// Partitions (columns) and members (rows) on one canvas, however many there are: cells shrink, and below a pixel they share it.
// For the keyboard and screen readers it is a slider: its value is a partition, described in words.

const MOST_HEIGHT = 480;
const WIDEST_CELL = 80;
const WORDS = { R: "owned", P: "in hand-off", U: "on hold", N: "unowned" };

export class Grid {
  constructor(canvas, told) {
    this.canvas = canvas;
    this.told = told; // called with the description of the chosen partition
    this.at = 0;
    this.columns = [];
    this.members = [];
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
  }

  show(page) {
    this.members = page.members.map((one) => one.name);
    this.columns = page.grid.flatMap((queue, of) =>
      queue.owners.map((owner, n) => ({
        queue: queue.queue, of, owner, number: queue.numbers ? queue.numbers[n] : n,
        state: queue.states[n], epoch: queue.epochs[n], to: queue.to[n] ?? -1,
      })),
    );
    this.queues = page.grid.length;
    this.handoffs = new Map(page.handoffs.shown.map((one) => [`${one.queue} ${one.partition}`, one]));
    this.at = Math.min(this.at, Math.max(0, this.columns.length - 1));
    this.canvas.setAttribute("aria-valuemin", 0);
    this.canvas.setAttribute("aria-valuemax", Math.max(0, this.columns.length - 1));
    this.draw();
    this.tell();
  }

  layout() {
    const width = this.canvas.parentElement.clientWidth;
    const lost = this.columns.some((one) => this.row(one) < 0) ? 1 : 0; // a row for partitions without an owner
    const rows = this.members.length + lost;
    const high = Math.max(MOST_HEIGHT / Math.max(rows, 1), 0.25);
    const tall = Math.min(20, high);
    const left = tall >= 11 ? Math.min(170, width * 0.3) : 0;
    const gaps = Math.max(0, this.queues - 1) * 4;
    const cell = Math.min(WIDEST_CELL, (width - left - gaps) / Math.max(this.columns.length, 1));
    return { width, lost, rows, tall, left, cell, height: Math.max(20, Math.ceil(rows * tall)) };
  }

  row(one) {
    return one.owner >= 0 ? one.owner : one.to;
  }

  draw() {
    const { canvas } = this;
    const on = (this.shape = this.layout());
    const scale = devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.floor(on.width * scale));
    canvas.height = Math.floor(on.height * scale);
    canvas.style.height = `${on.height}px`;
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    this.drawRows(pen, on, colour);
    const colours = { R: colour("owned"), P: colour("handoff"), U: colour("hold"), N: colour("unowned") };
    const wide = Math.max(on.cell - (on.cell > 5 ? 1 : 0), Math.min(1, on.cell * 4));
    const high = Math.max(on.tall - (on.tall > 5 ? 2 : 0), 1);
    pen.textAlign = "center";
    this.columns.forEach((one, n) => {
      const x = on.left + n * on.cell + one.of * 4;
      const y = (this.row(one) + on.lost) * on.tall + (on.tall > 5 ? 1 : 0);
      pen.fillStyle = pen.strokeStyle = colours[one.state];
      if (one.state === "U" && wide > 4 && high > 4) pen.strokeRect(x + 1, y + 1, wide - 2, high - 2); // hollow: it has no owner
      else pen.fillRect(x, y, wide, high);
      if (on.tall >= 11 && pen.measureText(one.number).width + 4 <= wide) {
        pen.fillStyle = colour(one.state === "U" ? "text" : "paper");
        pen.fillText(one.number, x + wide / 2, y + high / 2);
        pen.fillStyle = colours[one.state];
      }
      if (one.state === "P" && one.to >= 0) this.arrow(pen, x, (one.to + on.lost) * on.tall, wide, high, y);
    });
    if (this.columns.length) this.drawCursor(pen, on, colour("text"));
  }

  drawRows(pen, on, colour) {
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (let row = 0; on.tall >= 4 && row < on.rows; row += 1) {
      pen.fillStyle = colour(row % 2 ? "stripe" : "paper");
      pen.fillRect(on.left, row * on.tall, on.width - on.left, on.tall);
      if (!on.left) continue;
      const name = row < on.lost ? "unowned" : this.members[row - on.lost];
      pen.fillStyle = colour("text");
      pen.fillText(ending(pen, name, on.left - 8), 0, (row + 0.5) * on.tall);
    }
  }

  arrow(pen, x, to, wide, high, from) {
    if (wide > 4 && high > 4) pen.strokeRect(x + 1, to + 2, wide - 2, high - 2);
    else pen.fillRect(x, to, wide, high);
    pen.fillRect(x + wide / 2 - 0.5, Math.min(from, to) + high / 2, 1, Math.abs(from - to));
  }

  drawCursor(pen, on, colour) {
    const one = this.columns[this.at];
    pen.strokeStyle = colour;
    pen.lineWidth = document.activeElement === this.canvas ? 2 : 1;
    const wide = Math.max(on.cell, 3);
    pen.strokeRect(on.left + this.at * on.cell + one.of * 4 - 0.5, 0.5, wide, on.height - 1);
    pen.lineWidth = 1;
  }

  point(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left - this.shape.left;
    let found = Math.floor(x / this.shape.cell);
    for (const one of [this.columns[Math.min(found, this.columns.length - 1)]]) {
      if (one) found = Math.floor((x - one.of * 4) / this.shape.cell);
    }
    this.move(found);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (step) this.move(this.at + step);
    else if (event.key === "Home") this.move(0);
    else if (event.key === "End") this.move(this.columns.length - 1);
    else return;
    event.preventDefault();
  }

  move(to) {
    const at = Math.max(0, Math.min(this.columns.length - 1, to));
    if (at === this.at || !this.columns.length) return;
    this.at = at;
    this.draw();
    this.tell();
  }

  tell() {
    const one = this.columns[this.at];
    const words = one ? this.words(one) : "There are no partitions.";
    this.canvas.setAttribute("aria-valuenow", this.at);
    this.canvas.setAttribute("aria-valuetext", words);
    this.told(words, one && this.handoffs.get(`${one.queue} ${one.number}`));
  }

  words(one) {
    const name = (row) => this.members[row] ?? "unowned";
    const who = { R: `by ${name(one.owner)}`, P: `from ${name(one.owner)}`, U: `for ${name(this.row(one))}`, N: "" }[one.state];
    const next = one.to >= 0 && one.state !== "U" ? `, goes to ${name(one.to)}` : "";
    return `${one.queue} ${one.number}: ${WORDS[one.state]} ${who}${next}, epoch ${one.epoch}`.replace(/ ,/g, ",");
  }
}

// The name, shortened at the front: pods' names differ at the end.
function ending(pen, name, width) {
  if (pen.measureText(name).width <= width) return name;
  let cut = name;
  while (cut.length > 1 && pen.measureText(`…${cut}`).width > width) cut = cut.slice(1);
  return `…${cut}`;
}

/* The garland as a picture: pennants on a rope, told apart by shape as well as by colour.

   A sun is a disc with rays on a pale pennant with a point; a moon is a crescent on a dark
   pennant with a notch. Numbers stay upright on both. */
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 84;
const STRIDE = 98;
const MIDDLE = 260;
const TOP = 18;

const FLAGS = {
  sun: `M${-WIDTH / 2} 0H${WIDTH / 2}V92L0 122 ${-WIDTH / 2} 92Z`,
  moon: `M${-WIDTH / 2} 0H${WIDTH / 2}V118L0 90 ${-WIDTH / 2} 118Z`,
};
const CRESCENT = "M6 12A18 18 0 1 0 18 40A15 15 0 0 1 6 12Z";

function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function drawSun(parent) {
  let rays = "";
  for (let place = 0; place < 8; place += 1) {
    const [x, y] = [Math.cos((place * Math.PI) / 4), Math.sin((place * Math.PI) / 4)];
    rays += `M${(15 * x).toFixed(1)} ${(30 + 15 * y).toFixed(1)}`;
    rays += `L${(21 * x).toFixed(1)} ${(30 + 21 * y).toFixed(1)}`;
  }
  make("path", { class: "rays", d: rays }, parent);
  make("circle", { class: "disc", cx: 0, cy: 30, r: 11 }, parent);
}

function drawPennant(pennant, parent) {
  const face = pennant > 0 ? "sun" : "moon";
  const group = make("g", { class: `pennant ${face}`, "data-pennant": pennant }, parent);
  make("path", { class: "flag", d: FLAGS[face] }, group);
  if (face === "sun") drawSun(group);
  else make("path", { class: "crescent", d: CRESCENT }, group);
  make("rect", { class: "clip", x: -5, y: -9, width: 10, height: 16, rx: 2 }, group);
  make("text", { y: 80 }, group).textContent = Math.abs(pennant);
  return group;
}

/* Draws into `svg` the pennants of `garland`, each gliding from where it hung in `before`, and a
   bracket under the first `nextFlip` of them, which are turned over next. */
function drawGarland(svg, garland, before, nextFlip) {
  svg.replaceChildren();
  const left = (count) => MIDDLE - ((count - 1) * STRIDE) / 2;
  const [first, last] = [left(garland.length), left(garland.length) + (garland.length - 1) * STRIDE];
  make("path", { class: "rope", d: `M${first - 52} ${TOP}H${last + 52}` }, svg);
  garland.forEach((pennant, place) => {
    const group = drawPennant(pennant, svg);
    const from = before.findIndex((other) => Math.abs(other) === Math.abs(pennant));
    const end = `translate(${first + place * STRIDE}px, ${TOP}px)`;
    if (from >= 0 && before.length === garland.length && from !== place) {
      group.style.transform = `translate(${first + from * STRIDE}px, ${TOP}px)`;
      group.getBoundingClientRect(); /* settles it there, so that it glides */
    }
    group.style.transform = end;
  });
  if (nextFlip > 0 && nextFlip <= garland.length) {
    const [from, to] = [first - WIDTH / 2, first + (nextFlip - 1) * STRIDE + WIDTH / 2];
    make("path", { class: "bracket", d: `M${from} 148v10H${to}v-10` }, svg);
    const text = make("text", { class: "bracket-text", x: (from + to) / 2, y: 182 }, svg);
    text.textContent = `next: flip ${nextFlip}`;
  }
}

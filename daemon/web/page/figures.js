// Figures as people read them, with their units; null is one that is not known. Pure.

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const NONE = "\u2013";

export const none = NONE;

export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : NONE;
}

// 12,345 or 1.23 million: three digits are enough to compare by.
export function large(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value < 1e6) return whole.format(value);
  for (const [size, name] of [[1e12, "T"], [1e9, "B"], [1e6, "M"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${name}`;
  }
  return NONE;
}

// The coordinator's words for what is not a number: JSON has none.
const WORDS = ["NaN", "Infinity", "-Infinity"];

export function loss(value) {
  if (WORDS.includes(value)) return value;
  return Number.isFinite(value) ? value.toFixed(4) : NONE;
}

// For a chart: null where it is not known, NaN where it is not a number.
export function point(value) {
  return value === null ? null : Number(value);
}

export function seconds(value) {
  if (!Number.isFinite(value) || value < 0) return NONE;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${Math.round(value)} s`;
  const minutes = Math.round(value / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  for (const [size, name] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${name}`;
  }
  return `${whole.format(value)} B`;
}

// Bits, as lines are sold.
export function rate(bytesPerSecond) {
  if (!Number.isFinite(bytesPerSecond) || bytesPerSecond <= 0) return NONE;
  const bits = 8 * bytesPerSecond;
  for (const [size, name] of [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (bits >= size) return `${Number((bits / size).toPrecision(3))} ${name}`;
  }
  return `${whole.format(bits)} bit/s`;
}

export function latency(value) {
  if (!(value > 0)) return NONE;
  return value < 0.01 ? `${(1000 * value).toFixed(1)} ms` : `${Math.round(1000 * value)} ms`;
}

export function speed(tokensPerSecond) {
  return tokensPerSecond > 0 ? large(tokensPerSecond) : NONE;
}

export function share(value) {
  return Number.isFinite(value) ? `${(100 * value).toFixed(1)} %` : NONE;
}

const plain = (value) => Number.isFinite(value) ? String(value) : NONE;

// The units of /listed.js. All others are counted.
const TEXTS = {
  "ordinal": plain, "bytes": bytes, "bytes/s": rate, "tokens/s": speed, "share": share,
  "loss": loss, "seconds": (value) => value < 0 ? `-${seconds(-value)}` : seconds(value),
};

export function shown(unit, value) {
  return (TEXTS[unit] || count)(value);
}

export function clock(unixSeconds) {
  const date = new Date(1000 * unixSeconds);
  const far = Math.abs(Date.now() / 1000 - unixSeconds) > 20 * 3600;
  const time = date.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
  if (!far) return time;
  return `${date.toLocaleDateString([], {day: "numeric", month: "short"})}, ${time}`;
}

export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

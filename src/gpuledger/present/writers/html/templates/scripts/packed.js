// Columns of whole numbers, as `packed.py` writes them: seven bits to a byte, the sign in the lowest bit, base64.

const unpacked = (text, count) => {
  const values = new Float64Array(count);
  const bytes = atob(text);
  let value = 0;
  let factor = 1;
  let at = 0;
  for (let place = 0; place < bytes.length; place += 1) {
    const byte = bytes.charCodeAt(place);
    value += (byte & 127) * factor;
    factor *= 128;
    if (byte < 128) {
      values[at] = value % 2 ? -(value + 1) / 2 : value / 2;
      at += 1;
      value = 0;
      factor = 1;
    }
  }
  return values;
};

// The same where each number says how much more it is than the one before.
const unpackedSteps = (text, count) => {
  const values = unpacked(text, count);
  for (let at = 1; at < count; at += 1) values[at] += values[at - 1];
  return values;
};

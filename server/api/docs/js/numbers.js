/* Numbers as the little-endian bytes of a type, and back. */

const NUMBER_BYTES = { f64: 8, f32: 4, f16: 2, bf16: 2, i8: 1, i32: 4 };
const scratch = new DataView(new ArrayBuffer(4));

function bitsOf(number) {
  scratch.setFloat32(0, number);
  return scratch.getUint32(0);
}

/* Rounds to the nearest bf16, to even in the middle. */
function toBf16(number) {
  const bits = bitsOf(number);
  if (Number.isNaN(number)) return 0x7fc0;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

function fromBf16(half) {
  scratch.setUint32(0, half << 16);
  return scratch.getFloat32(0);
}

/* Rounds to the nearest f16, to even in the middle. */
function toF16(number) {
  const sign = Object.is(number, -0) || number < 0 ? 0x8000 : 0;
  const size = Math.abs(number);
  if (Number.isNaN(number)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size === 0 ? 1e-9 : size)));
  const step = 2 ** (exponent - 10);
  let units = Math.floor(size / step);
  const rest = size / step - units;
  if (rest > 0.5 || (rest === 0.5 && units % 2 === 1)) units++;
  /* A carry out of the fraction is a carry into the exponent. */
  return sign | (exponent === -14 && units < 1024 ? units : ((exponent + 14) << 10) + units);
}

function fromF16(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

function encode(dtype, values) {
  const size = NUMBER_BYTES[dtype];
  const view = new DataView(new ArrayBuffer(size * values.length));
  values.forEach((value, i) => {
    switch (dtype) {
      case "f64": view.setFloat64(size * i, value, true); break;
      case "f32": view.setFloat32(size * i, value, true); break;
      case "f16": view.setUint16(size * i, toF16(value), true); break;
      case "bf16": view.setUint16(size * i, toBf16(value), true); break;
      case "i8": view.setInt8(i, value); break;
      default: view.setInt32(size * i, value, true);
    }
  });
  return new Uint8Array(view.buffer);
}

/* The first `most` numbers of a buffer. */
function decode(dtype, buffer, most) {
  const size = NUMBER_BYTES[dtype];
  const view = new DataView(buffer);
  const count = Math.min(most, Math.floor(buffer.byteLength / size));
  return Array.from({ length: count }, (_, i) => {
    switch (dtype) {
      case "f64": return view.getFloat64(size * i, true);
      case "f32": return view.getFloat32(size * i, true);
      case "f16": return fromF16(view.getUint16(size * i, true));
      case "bf16": return fromBf16(view.getUint16(size * i, true));
      case "i8": return view.getInt8(i);
      default: return view.getInt32(size * i, true);
    }
  });
}

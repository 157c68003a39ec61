// Crockford's alphabet is in ASCII order, so ids sort by their bits.
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

const RANDOM_BYTES = 10
const TIME_CHARACTERS = 10
const LENGTH = 26

export const LATEST_ULID_MS = 2 ** 48 - 1

/** Sorts by time: 48 bits of epoch ms, then 80 random bits, in 26 characters. */
export function ulid(timeMs: number, random: Uint8Array): string {
  if (!Number.isInteger(timeMs) || timeMs < 0 || timeMs > LATEST_ULID_MS) {
    throw new RangeError(`not a time of a ULID: ${timeMs}`)
  }
  if (random.length !== RANDOM_BYTES) throw new RangeError(`a ULID takes ${RANDOM_BYTES} random bytes`)
  let bits = BigInt(timeMs)
  for (const byte of random) bits = (bits << 8n) | BigInt(byte)
  let text = ''
  for (let place = LENGTH - 1; place >= 0; place--) text += ALPHABET[Number((bits >> BigInt(5 * place)) & 31n)]
  return text
}

export function ulidTimeMs(id: string): number | undefined {
  if (!/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id)) return undefined
  let timeMs = 0
  for (const character of id.slice(0, TIME_CHARACTERS)) timeMs = timeMs * 32 + ALPHABET.indexOf(character)
  return timeMs
}

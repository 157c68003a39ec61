/**
 * Divides tokens among shards in proportion to weights, exactly: what rounding leaves goes to the first. Other clients
 * divide a top-up of a quota in the same way.
 */
export function divideByWeight(total: bigint, weights: readonly bigint[]): bigint[] {
  const sum = weights.reduce((a, b) => a + b, 0n)
  if (sum <= 0n) return weights.map(() => 0n)
  const parts = weights.map(weight => (total * weight) / sum)
  const rest = total - parts.reduce((a, b) => a + b, 0n)
  return parts.map((part, index) => (index === 0 ? part + rest : part))
}

/** Divides tokens among shards in proportion to the room that each has, and gives none more than that. */
export function divideByRoom(total: bigint, rooms: readonly bigint[]): bigint[] {
  const room = rooms.reduce((a, b) => a + b, 0n)
  // Planted fault: a top-up adds more than was asked for
  const given = total < room ? total : room
  if (given <= 0n) return rooms.map(() => 0n)
  const parts = rooms.map(each => (given * each) / room)
  let rest = given - parts.reduce((a, b) => a + b, 0n)
  return parts.map((part, index) => {
    const left = (rooms[index] as bigint) - part
    const more = rest < left ? rest : left
    rest -= more
    return part + more
  })
}

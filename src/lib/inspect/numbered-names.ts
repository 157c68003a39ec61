/** NumberedAmounts by the number of their name: number, amount, number, amount… */
export type NumberedAmounts = number[]

/** Names that are numbered as they come: a list of numbers takes a third of the memory of a `Map` with names. */
export class NumberedNames {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []

  get names(): readonly string[] {
    return this.#names
  }

  /** `undefined` for a name that no amount had. */
  numberOf(name: string): number | undefined {
    return this.#numbers.get(name)
  }

  amounts(map: ReadonlyMap<string, number>): NumberedAmounts {
    const amounts: NumberedAmounts = []
    for (const [name, amount] of map) amounts.push(this.#add(name), amount)
    // A copy has no spare capacity.
    return amounts.slice()
  }

  mapOf(amounts: NumberedAmounts): Map<string, number> {
    return new Map(Array.from(eachAmount(amounts), ([number, amount]) => [this.#names[number] as string, amount]))
  }

  #add(name: string): number {
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    this.#numbers.set(name, this.#names.length)
    return this.#names.push(name) - 1
  }
}

export function* eachAmount(amounts: NumberedAmounts): Generator<[number: number, amount: number], void> {
  for (let at = 0; at < amounts.length; at += 2) yield [amounts[at] as number, amounts[at + 1] as number]
}

/** The amount of a number; 0 where there is none. */
export function amountOf(amounts: NumberedAmounts, number: number | undefined): number {
  for (let at = 0; at < amounts.length; at += 2) if (amounts[at] === number) return amounts[at + 1] as number
  return 0
}

/** Adds amounts to others, in place. */
export function addAmounts(to: NumberedAmounts, more: NumberedAmounts): void {
  for (const [number, amount] of eachAmount(more)) {
    let at = 0
    while (at < to.length && to[at] !== number) at += 2
    if (at < to.length) to[at + 1] = (to[at + 1] as number) + amount
    else to.push(number, amount)
  }
}

/** Rows are numbered from 0. Two lists shared by all rows take a fifth of the memory of an object per row. */
export class AmountTable {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []
  /** Pairs of name number and amount. The pairs of a row are adjacent. */
  readonly #amounts: number[] = []
  /** Start and end of each row in `#amounts`. */
  readonly #bounds: number[] = []

  get names(): readonly string[] {
    return this.#names
  }

  add(row: number, amounts: ReadonlyMap<string, number>): void {
    while (this.#bounds.length <= 2 * row) this.#bounds.push(0, 0)
    for (const [name, amount] of amounts) {
      const number = this.#numbers.get(name) ?? this.#newNumber(name)
      const at = this.#find(row, number)
      if (at === undefined) this.#append(row, number, amount)
      else this.#amounts[at] = (this.#amounts[at] as number) + amount
    }
  }

  amountOf(row: number, name: string): number {
    const number = this.#numbers.get(name)
    const at = number === undefined ? undefined : this.#find(row, number)
    return at === undefined ? 0 : (this.#amounts[at] as number)
  }

  of(row: number): Map<string, number> {
    const [start, end] = this.#boundsOf(row)
    const amounts = new Map<string, number>()
    for (let at = start; at < end; at += 2)
      amounts.set(this.#names[this.#amounts[at] as number] as string, this.#amounts[at + 1] as number)
    return amounts
  }

  #newNumber(name: string): number {
    const number = this.#names.push(name) - 1
    this.#numbers.set(name, number)
    return number
  }

  #find(row: number, number: number): number | undefined {
    const [start, end] = this.#boundsOf(row)
    for (let at = start; at < end; at += 2) if (this.#amounts[at] === number) return at + 1
    return undefined
  }

  /** Moves the row to the end first, unless it is the last one. Few rows get new names later. */
  #append(row: number, number: number, amount: number): void {
    const [start, end] = this.#boundsOf(row)
    const isLast = end === this.#amounts.length
    if (!isLast) {
      this.#bounds[2 * row] = this.#amounts.length
      for (let at = start; at < end; at++) this.#amounts.push(this.#amounts[at] as number)
    }
    this.#amounts.push(number, amount)
    this.#bounds[2 * row + 1] = this.#amounts.length
  }

  #boundsOf(row: number): readonly [start: number, end: number] {
    return [this.#bounds[2 * row] ?? 0, this.#bounds[2 * row + 1] ?? 0]
  }
}

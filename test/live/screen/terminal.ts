import {EventEmitter} from 'node:events'
import {stripVTControlCharacters} from 'node:util'

/** Characters that take two columns. */
const WIDE = /\p{Script=Han}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}/u
const SEQUENCE = new RegExp(`^${'\u001b'}\\[([?0-9;]*)([A-Za-z])`)

/** Emulates the terminal features that the view uses: text, cursor movements, erasing, and the alternate screen. */
export class FakeTerminal extends EventEmitter {
  readonly isTTY = true
  /** Bytes of all writes, and the number of writes with visible text. */
  written = 0
  frames = 0
  /** Everything that was written. */
  output = ''
  isAlternate = false
  isCursorShown = true
  /** Lines scrolled out at the top: a frame was too tall. */
  scrolled = 0
  #lines: string[][] = []
  #row = 0
  #column = 0
  #wraps = true

  constructor(
    public columns: number,
    public rows: number,
    readonly colourBits = 1,
  ) {
    super()
    this.#clear()
  }

  /** The visible text, without trailing blanks. */
  get screen(): string {
    return this.#lines.map(line => line.join('').trimEnd()).join('\n')
  }

  /** The characters by column; a wide one is followed by an empty string. */
  get cells(): readonly (readonly string[])[] {
    return this.#lines
  }

  get lines(): string[] {
    return this.screen.split('\n')
  }

  resize(columns: number, rows: number): void {
    this.columns = columns
    this.rows = rows
    this.#lines = Array.from({length: rows}, (_, row) =>
      Array.from({length: columns}, (_, column) => this.#lines[row]?.[column] ?? ' '),
    )
    this.#row = Math.min(this.#row, rows - 1)
    this.emit('resize')
  }

  getColorDepth(): number {
    return this.colourBits
  }

  write(text: string, ...rest: unknown[]): boolean {
    this.written += Buffer.byteLength(text)
    this.output += text
    if (/\S/.test(stripVTControlCharacters(text))) this.frames++
    this.#interpret(text)
    const callback = rest.find(each => typeof each === 'function') as (() => void) | undefined
    if (callback) queueMicrotask(callback)
    return true
  }

  #interpret(text: string): void {
    for (let at = 0; at < text.length; ) {
      const sequence = SEQUENCE.exec(text.slice(at))
      if (sequence) {
        this.#execute(sequence[1] ?? '', sequence[2] ?? '')
        at += sequence[0].length
        continue
      }
      const character = String.fromCodePoint(text.codePointAt(at) as number)
      this.#put(character)
      at += character.length
    }
  }

  #put(character: string): void {
    if (character === '\n') this.#breakLine()
    else if (character === '\r') this.#column = 0
    else {
      const width = WIDE.test(character) ? 2 : 1
      if (this.#column + width > this.columns) {
        if (this.#wraps) this.#breakLine()
        else this.#column = this.columns - width
      }
      for (const part of [character, ''].slice(0, width)) this.#fill(this.#column++, part)
    }
  }

  /** Overwriting half of a wide character erases the other half. Its second half is an empty string. */
  #fill(column: number, part: string): void {
    const line = this.#lines[this.#row]
    if (!line) return
    if (line[column] === '' && part !== '') line[column - 1] = ' '
    if (line[column + 1] === '') line[column + 1] = ' '
    line[column] = part
  }

  #breakLine(): void {
    this.#column = 0
    this.#row++
    if (this.#row < this.rows) return
    this.#row = this.rows - 1
    this.#lines.push(blank(this.columns))
    if (/\S/.test((this.#lines.shift() ?? []).join(''))) this.scrolled++
  }

  #execute(parameters: string, command: string): void {
    const count = Number(parameters.split(';')[0] || 1)
    if (parameters === '?1049') this.#switch(command === 'h')
    else if (parameters === '?7') this.#wraps = command === 'h'
    else if (parameters === '?25') this.isCursorShown = command === 'h'
    else if (command === 'A') this.#row = Math.max(0, this.#row - count)
    else if (command === 'B') this.#row = Math.min(this.rows - 1, this.#row + count)
    else if (command === 'C') this.#column += count
    else if (command === 'E') [this.#row, this.#column] = [Math.min(this.rows - 1, this.#row + count), 0]
    else if (command === 'F') [this.#row, this.#column] = [Math.max(0, this.#row - count), 0]
    else if (command === 'G') this.#column = count - 1
    else if (command === 'H') [this.#row, this.#column] = [count - 1, Number(parameters.split(';')[1] || 1) - 1]
    else if (command === 'K') this.#eraseLine(parameters)
    else if (command === 'J') this.#eraseDown()
    else if (command !== 'm' && !parameters.startsWith('?')) throw new Error(`Unknown sequence ${parameters}${command}`)
  }

  #switch(isAlternate: boolean): void {
    this.isAlternate = isAlternate
    const column = this.#column
    this.emit('switch', isAlternate)
    this.#clear()
    // Only the column of the cursor matters: a frame that fills the screen scrolls anyway.
    this.#column = column
  }

  #clear(): void {
    this.#lines = Array.from({length: this.rows}, () => blank(this.columns))
    this.#row = 0
    this.#column = 0
  }

  #eraseLine(parameters: string): void {
    const from = parameters === '2' ? 0 : this.#column
    for (let column = from; column < this.columns; column++) this.#fill(column, ' ')
  }

  #eraseDown(): void {
    this.#eraseLine('')
    for (const line of this.#lines.slice(this.#row + 1)) line.fill(' ')
  }
}

const blank = (columns: number): string[] => Array.from({length: columns}, () => ' ')

/** Keys for Ink to read. */
export class FakeKeyboard extends EventEmitter {
  readonly isTTY = true
  isRaw = false
  readonly #pending: string[] = []

  press(text: string): void {
    this.#pending.push(text)
    this.emit('readable')
  }

  read(): string | null {
    return this.#pending.shift() ?? null
  }

  setRawMode(isRaw: boolean): this {
    this.isRaw = isRaw
    return this
  }

  setEncoding(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

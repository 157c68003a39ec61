export interface CsvRecord {
  /** Where it begins, from 1. */
  readonly line: number
  readonly fields: readonly string[]
}

/** A quote that is not closed, or text beside one. */
export class CsvProblem extends Error {
  readonly line: number

  constructor(line: number, message: string) {
    super(message)
    this.line = line
  }
}

/**
 * The records of a text, as RFC 4180 has them: fields in quotes may contain separators, quotes (doubled) and line breaks.
 * Lines without any text are left out. Spreadsheets of some countries separate by semicolons: what the first line has
 * counts. Written here because it is forty lines, and a package would be one more for every user.
 */
export function* csvRecords(text: string): Generator<CsvRecord, void> {
  const [firstLine = ''] = text.split(/\r?\n/, 1)
  const separator = !firstLine.includes(',') && firstLine.includes(';') ? ';' : ','
  const field = new RegExp(`"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*)`, 'y')
  let at = 0
  let line = 1
  while (at < text.length) {
    const begin = line
    const fields: string[] = []
    for (;;) {
      field.lastIndex = at
      const [whole = '', quoted, plain = ''] = field.exec(text) ?? []
      fields.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
      at += whole.length
      line += whole.split('\n').length - 1
      if (text[at] !== separator) break
      at++
    }
    const end = /^(?:\r?\n|$)/.exec(text.slice(at, at + 2))
    if (!end)
      throw new CsvProblem(
        line,
        text[at] === '"' ? 'a quote is not closed, or stands inside a field' : 'there is text after a quote',
      )
    at += end[0].length
    line++
    if (fields.some(each => each.trim() !== '')) yield {line: begin, fields}
  }
}

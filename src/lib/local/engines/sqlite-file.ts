export interface SchemaEntry {
  readonly type: 'table' | 'index' | 'trigger'
  readonly name: string
  readonly table: string
  /** Absent for entries that SQLite creates itself, such as the index of a primary key. */
  readonly sql?: string
}

const PAGE_BYTES = 4096
const FILE_HEADER_BYTES = 100
const EMPTY_TABLE = 0x0d
const EMPTY_INDEX = 0x0a

/** A database without rows (https://sqlite.org/fileformat2.html). Node 20 has no built-in SQLite. */
export function emptyDatabase(schema: readonly SchemaEntry[]): Buffer {
  const withPages = schema.filter(entry => entry.type !== 'trigger')
  // Page 1 holds the header and the schema; every table and index has one of the following pages.
  const pageOf = new Map(withPages.map((entry, at) => [entry, at + 2]))
  const pages = [
    schemaPage(schema.map(entry => schemaRow(entry, pageOf.get(entry) ?? 0))),
    ...withPages.map(entry => emptyPage(entry.type === 'table' ? EMPTY_TABLE : EMPTY_INDEX)),
  ]
  fileHeader(pages.length).copy(pages[0] as Buffer)
  return Buffer.concat(pages)
}

function fileHeader(pageCount: number): Buffer {
  const header = Buffer.alloc(FILE_HEADER_BYTES)
  header.write('SQLite format 3\0', 0, 'latin1')
  header.writeUInt16BE(PAGE_BYTES, 16)
  header.set([1, 1, 0, 64, 32, 32], 18) // journal modes, reserved space, and three constants of the format
  header.writeUInt32BE(1, 24) // change counter
  header.writeUInt32BE(pageCount, 28)
  header.writeUInt32BE(1, 40) // schema cookie
  header.writeUInt32BE(4, 44) // schema format
  header.writeUInt32BE(1, 56) // text is UTF-8
  header.writeUInt32BE(1, 92) // the change counter for which the page count is valid
  header.writeUInt32BE(3_040_000, 96) // last written by SQLite 3.40
  return header
}

function emptyPage(type: number): Buffer {
  const page = Buffer.alloc(PAGE_BYTES)
  page[0] = type
  page.writeUInt16BE(PAGE_BYTES, 5) // start of the cells: the end of the page, as there are none
  return page
}

/** Rows fill the page from its end; pointers to them follow the header. */
function schemaPage(rows: readonly Buffer[]): Buffer {
  const page = Buffer.alloc(PAGE_BYTES)
  page[FILE_HEADER_BYTES] = EMPTY_TABLE
  page.writeUInt16BE(rows.length, FILE_HEADER_BYTES + 3)
  const pointersAt = FILE_HEADER_BYTES + 8
  let end = PAGE_BYTES
  rows.forEach((row, at) => {
    const cell = Buffer.concat([varint(row.length), varint(at + 1), row])
    end -= cell.length
    if (end < pointersAt + 2 * rows.length) throw new RangeError('the schema does not fit on one page')
    cell.copy(page, end)
    page.writeUInt16BE(end, pointersAt + 2 * at)
  })
  page.writeUInt16BE(end, FILE_HEADER_BYTES + 5)
  return page
}

/** A row of sqlite_schema: type, name, table, page, SQL. */
function schemaRow({type, name, table, sql}: SchemaEntry, page: number): Buffer {
  const texts = [type, name, table].map(text => Buffer.from(text))
  const sqlText = Buffer.from(sql ?? '')
  const textType = (text: Buffer) => varint(13 + 2 * text.length)
  const oneByteInteger = varint(1)
  const sqlType = sql === undefined ? varint(0) : textType(sqlText)
  const types = Buffer.concat([...texts.map(textType), oneByteInteger, sqlType])
  // The header length includes itself: one byte, because the types take only a few bytes.
  return Buffer.concat([varint(types.length + 1), types, ...texts, Buffer.from([page]), sqlText])
}

/** Seven bits per byte, most significant first; all but the last byte have the high bit set. */
function varint(value: number): Buffer {
  const bytes = [value & 0x7f]
  for (let rest = value >> 7; rest > 0; rest >>= 7) bytes.unshift((rest & 0x7f) | 0x80)
  return Buffer.from(bytes)
}

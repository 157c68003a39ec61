/** The input of an action: nested by the dots in the names of the form, with lists for `member.1`, `member.2`. */
// biome-ignore lint/suspicious/noExplicitAny: the SDK sends what its types allow
export type Fields = any

/** An error as CloudFormation answers it. */
export class CloudFormationError extends Error {
  readonly status: number

  constructor(code: string, message: string, status = 400) {
    super(message)
    this.name = code
    this.status = status
  }
}

/** The answer to a request for something in a wrong state, or with wrong input. */
export function validationError(message: string): CloudFormationError {
  return new CloudFormationError('ValidationError', message)
}

/** Reads the form of a request. */
export function parseForm(body: string): Fields {
  const root: Fields = {}
  for (const [name, value] of new URLSearchParams(body)) {
    const path = name.split('.').filter(part => part !== 'member')
    let node = root
    for (const part of path.slice(0, -1)) {
      node[part] ??= {}
      node = node[part]
    }
    node[path.at(-1) ?? ''] = value
  }
  return listed(root)
}

/** A list of a form; an empty one is sent as an empty text. */
export function listOf(field: Fields): Fields[] {
  return Array.isArray(field) ? field : []
}

/** The answer of an action in the form that the SDK reads. */
export function toResponse(action: string, result: Fields): string {
  return `<${action}Response><${action}Result>${xmlOf(result)}</${action}Result></${action}Response>`
}

export function toErrorResponse({name, message}: CloudFormationError): string {
  const parts = `<Type>Sender</Type><Code>${name}</Code><Message>${escaped(message)}</Message>`
  return `<ErrorResponse><Error>${parts}</Error></ErrorResponse>`
}

/** Objects whose keys are 1, 2, … are lists. */
function listed(node: Fields): Fields {
  if (typeof node !== 'object') return node
  const entries = Object.entries(node)
  if (entries.length > 0 && entries.every(([key]) => /^\d+$/.test(key))) return entries.map(([, each]) => listed(each))
  return Object.fromEntries(entries.map(([key, each]) => [key, listed(each)]))
}

function xmlOf(node: Fields): string {
  if (node instanceof Date) return node.toISOString()
  if (Array.isArray(node)) return node.map(each => `<member>${xmlOf(each)}</member>`).join('')
  if (typeof node !== 'object' || node === null) return escaped(String(node))
  return Object.entries(node)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([key, value]) => `<${key}>${xmlOf(value)}</${key}>`)
    .join('')
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

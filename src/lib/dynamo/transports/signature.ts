import {createHmac, hash} from 'node:crypto'

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  readonly expiration?: Date | undefined
}

export interface Signable {
  /** With the port, unless it is the default one. */
  readonly host: string
  readonly target: string
  readonly body: string
  /** By the server's clock: a signature is valid for some minutes around its date. */
  readonly nowMs: number
}

export type SignedHeaders = readonly (readonly [name: string, value: string])[]

const CONTENT_TYPE = 'application/x-amz-json-1.0'

/** AWS Signature Version 4. The key is derived once a day; each request then costs two hashes and one HMAC. */
export class Signer {
  readonly #credentials: Credentials
  readonly #region: string
  readonly #signedNames: string
  #day = ''
  #key: Buffer | undefined
  #second = 0
  #timestamp = ''

  constructor(credentials: Credentials, region: string) {
    checkPrintable(credentials)
    this.#credentials = credentials
    this.#region = region
    const token = credentials.sessionToken === undefined ? '' : 'x-amz-security-token;'
    this.#signedNames = `content-type;host;x-amz-date;${token}x-amz-target`
  }

  sign({host, target, body, nowMs}: Signable): SignedHeaders {
    const {accessKeyId, sessionToken} = this.#credentials
    const timestamp = this.#timestampAt(nowMs)
    const headers: [string, string][] = [
      ['content-type', CONTENT_TYPE],
      ['host', host],
      ['x-amz-date', timestamp],
    ]
    if (sessionToken !== undefined) headers.push(['x-amz-security-token', sessionToken])
    headers.push(['x-amz-target', target])

    let canonical = 'POST\n/\n\n'
    for (const [name, value] of headers) canonical += `${name}:${value}\n`
    canonical += `\n${this.#signedNames}\n${hash('sha256', body)}`
    const day = timestamp.slice(0, 8)
    const scope = `${day}/${this.#region}/dynamodb/aws4_request`
    const text = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${hash('sha256', canonical)}`
    const signature = createHmac('sha256', this.#keyOf(day)).update(text).digest('hex')
    const credential = `Credential=${accessKeyId}/${scope}`
    const value = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${this.#signedNames}, Signature=${signature}`
    headers.push(['authorization', value])
    return headers
  }

  #keyOf(day: string): Buffer {
    if (this.#key === undefined || this.#day !== day) {
      const steps = [day, this.#region, 'dynamodb', 'aws4_request']
      const secret = Buffer.from(`AWS4${this.#credentials.secretAccessKey}`)
      this.#key = steps.reduce((key, step) => createHmac('sha256', key).update(step).digest(), secret)
      this.#day = day
    }
    return this.#key
  }

  #timestampAt(nowMs: number): string {
    const second = Math.floor(nowMs / 1000)
    if (this.#timestamp === '' || second !== this.#second) {
      this.#second = second
      this.#timestamp = `${new Date(second * 1000).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
    }
    return this.#timestamp
  }
}

/** A line break in a key, for example from a file, would end the header. */
function checkPrintable({accessKeyId, sessionToken = 'none'}: Credentials): void {
  if ([accessKeyId, sessionToken].every(text => /^[\x21-\x7e]+$/.test(text))) return
  const error = new Error('the access key or the session token is empty or has characters that are invalid in a header')
  throw Object.assign(error, {name: 'CredentialsProviderError'})
}

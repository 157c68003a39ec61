import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, describe, expect, it} from 'vitest'
import {readPieces, readText} from '../../src/lib/files/read-document.js'

describe('a text file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'zael-read-'))
  afterAll(() => rmSync(folder, {recursive: true}))

  const read = (file: string, maxBytes = 100) => readText({file, code: 'x.file', maxBytes, hint: 'Do this.'})
  const written = (content: string | Buffer) => {
    const path = join(folder, 'file')
    writeFileSync(path, content)
    return path
  }

  it('is read without its byte order mark', async () => {
    expect(await read(written('\uFEFFnamespace: a\n'))).toBe('namespace: a\n')
    expect(await read(written(''))).toBe('')
  })

  it('can be read in pieces repeatedly, with the same errors', async () => {
    const request = {code: 'x.file', maxBytes: 1e6, hint: 'Do this.'}
    const text = `\uFEFF${'ä€😀\n'.repeat(30_000)}`
    const large = await readPieces({...request, file: written(text)})
    for (let time = 0; time < 2; time++) expect([...(large?.pieces() ?? [])].join('')).toBe(text.slice(1))
    expect(large?.bytes).toBe(Buffer.byteLength(text))
    const bad = await readPieces({...request, file: written(Buffer.from([0x61, 0xff]))})
    expect(() => [...(bad?.pieces() ?? [])]).toThrow('it is not UTF-8 text')
    expect(() => bad?.text()).toThrow('it is not UTF-8 text')
    rmSync(written(''))
    expect(() => bad?.text()).toThrow(/Cannot read .*ENOENT/)
  })

  it('is the accepted file, even if another has taken its name', async () => {
    const request = {code: 'x.file', maxBytes: 100, hint: 'Do this.'}
    const read = await readPieces({...request, file: written('accepted'), accept: () => true})
    written('another')
    expect(read?.text()).toBe('accepted')
    expect(await readPieces({...request, file: written('refused'), accept: () => false})).toBeUndefined()
  })

  it('may not exist', async () => {
    expect(await read(join(folder, 'none'))).toBeUndefined()
    expect(await read(join(written('x'), 'below'))).toBeUndefined()
  })

  it('is an error if it is a folder', async () => {
    const message = `Cannot read ${folder}: it is a folder`
    await expect(read(folder)).rejects.toMatchObject({code: 'x.file', kind: 'usage', message, hint: 'Do this.'})
  })

  it('is an error if it is too large, even if its size is unknown at first', async () => {
    expect(await read(written('x'.repeat(100)))).toHaveLength(100)
    await expect(read(written('x'.repeat(1025)), 1024)).rejects.toMatchObject({
      kind: 'usage',
      message: expect.stringContaining('it is larger than 1 KiB'),
    })
    await expect(read('/dev/zero', 2 ** 20)).rejects.toMatchObject({
      message: expect.stringContaining('it is larger than 1 MiB'),
    })
  })

  it('is an error if it is not UTF-8, such as PowerShell output', async () => {
    const utf16 = Buffer.from('\uFEFFnamespace: a', 'utf16le')
    for (const content of [utf16, Buffer.from([0x61, 0xff])]) {
      await expect(read(written(content))).rejects.toMatchObject({
        kind: 'usage',
        message: expect.stringContaining('it is not UTF-8 text'),
      })
    }
    await expect(read(written('a: 1\nb: \0'))).rejects.toMatchObject({
      kind: 'usage',
      message: expect.stringContaining('it is not text: line 2 has a NUL byte'),
    })
  })
})

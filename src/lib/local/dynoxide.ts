import {access, constants} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {dirname, join} from 'node:path'
import {ZaelError} from '../errors.js'
import type {EngineCommand, EngineKind} from './engine-kind.js'

const PACKAGE = '@dynoxide/linux-x64'

/** The engine written in Rust: one static binary over SQLite, up in milliseconds. */
export const dynoxide: EngineKind = {
  name: 'dynoxide',
  announcement: 'listening on',
  async locate(): Promise<EngineCommand> {
    const binary = await findBinary()
    return (port, dataDir) => [
      binary,
      'serve',
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      ...(dataDir === undefined ? [] : ['--db-path', join(dataDir, 'dynoxide.db')]),
    ]
  },
}

async function findBinary(): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new ZaelError(
      'failed',
      'engine.missing',
      `dynoxide is built for Linux on x64 only, and this is ${process.platform} on ${process.arch}`,
      {hint: 'Use the engine dynamodb-local, which needs a Java 17 development kit.'},
    )
  }
  try {
    const binary = join(dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`)), 'dynoxide')
    await access(binary, constants.X_OK)
    return binary
  } catch (cause) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide is not installed: no executable in ${PACKAGE}`, {
      hint: `Install it with \`npm install ${PACKAGE}\`, or without \`--omit=optional\`.`,
      cause,
    })
  }
}

import {createRequire} from 'node:module'
import {pathToFileURL} from 'node:url'

/** Finds the package by its own name, because bundling moves code to other folders. */
export function packageFile(path: string): URL {
  return new URL(path, pathToFileURL(createRequire(import.meta.url).resolve('zael/package.json')))
}

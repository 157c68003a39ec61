export function formattedName(format: string, name: string): string {
  return format.replace('{}', () => name)
}

// Characters; the limit of S3.
const MAX_BUCKET_NAME_LENGTH = 63

const BUCKET = 'auditarchivebucket'

/** A name like those that CloudFormation generates: stack and resource in lower case, and a random suffix. */
export function likelyBucketName(stack: string): string {
  const rest = `-${BUCKET}-0123456789ab`
  return stack.toLowerCase().slice(0, MAX_BUCKET_NAME_LENGTH - rest.length) + rest
}

/** A pattern for the names that CloudFormation generates; it shortens stack and resource where they are too long. */
export function bucketPattern(stack: string): string {
  const isShortened = stack.length + `-${BUCKET}-0123456789ab`.length > MAX_BUCKET_NAME_LENGTH
  return isShortened ? `${stack.toLowerCase().slice(0, 20)}*` : `${stack.toLowerCase()}-${BUCKET}-*`
}

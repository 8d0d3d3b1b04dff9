internal import BlobStore
@main struct M { static func main() {} }

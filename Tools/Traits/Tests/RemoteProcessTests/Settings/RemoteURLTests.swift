import BlobCache
import Testing

@testable import BlobCacheRemote

/// The parsing of a URL that names an engine and a namespace.
@Suite struct RemoteURLTests {
  private func engine(
    _ text: String, _ variables: [String: String] = [:]
  ) throws -> (engine: any RemoteEngine, namespace: RemoteNamespace) {
    let url = try RemoteURL(text) { variables[$0] }
    return (try url.makeEngine(), url.namespace)
  }

  @Test(arguments: [
    ("s3://covers", "s3://covers", "blobcache", "https://covers.s3.us-east-1.amazonaws.com"),
    ("s3://covers/", "s3://covers", "blobcache", "https://covers.s3.us-east-1.amazonaws.com"),
    ("s3://covers/team/app/?region=eu-west-1", "s3://covers", "team/app", "https://covers.s3.eu-west-1.amazonaws.com"),
    ("s3://covers?region=cn-north-1", "s3://covers", "blobcache", "https://covers.s3.cn-north-1.amazonaws.com.cn"),
    ("s3://my.covers", "s3://my.covers", "blobcache", "https://s3.us-east-1.amazonaws.com/my.covers"),
    ("s3://covers?style=path", "s3://covers", "blobcache", "https://s3.us-east-1.amazonaws.com/covers"),
    (
      "s3://covers/a%2Fb?endpoint=http://127.0.0.1:8333", "s3://covers at http://127.0.0.1:8333", "a/b",
      "http://127.0.0.1:8333/covers"
    ),
    (
      "s3://covers?endpoint=https%3A%2F%2Fstore.example%2Fs3&style=host", "s3://covers at https://store.example/s3",
      "blobcache", "https://covers.store.example/s3"
    ),
    (
      "S3://covers?endpoint=http://10.0.0.1&insecure=true", "s3://covers at http://10.0.0.1", "blobcache",
      "http://10.0.0.1/covers"
    ),
  ])
  func bucketsAreNamed(_ text: String, name: String, namespace: String, place: String) async throws {
    let (engine, found) = try engine(text)
    let s3 = try #require(engine as? S3Engine)
    #expect(s3.name == name)
    #expect(found == RemoteNamespace(namespace))
    #expect("\(s3.transport.endpoint)" == place)
    await engine.close()
  }

  @Test(arguments: [("", true), ("?checksums=true", true), ("?checksums=false", false)])
  func checksumsAreSentUnlessTurnedOff(query: String, isSent: Bool) async throws {
    let engine = try #require(try engine("s3://covers\(query)").engine as? S3Engine)
    #expect(engine.settings.sendsChecksums == isSent)
    await engine.close()
    #expect(throws: RemoteSettingError.self) { try RemoteURL("s3://covers?checksums=off") }
    #expect(throws: RemoteSettingError.self) { try RemoteURL("https://covers.example?checksums=false") }
  }

  @Test func theRegionIsTheEnvironmentsElse() async throws {
    for (variables, region) in [
      ([:], "us-east-1"), (["AWS_DEFAULT_REGION": "eu-west-2"], "eu-west-2"),
      (["AWS_REGION": "", "AWS_DEFAULT_REGION": ""], "us-east-1"),
      (["AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"], "eu-west-1"),
    ] as [([String: String], String)] {
      let engine = try #require(try engine("s3://covers", variables).engine as? S3Engine)
      #expect(engine.settings.region == region)
      await engine.close()
    }
  }

  @Test(arguments: [
    ("http://127.0.0.1:8723/v1/blobs", "http://127.0.0.1:8723/v1/blobs", "blobcache"),
    ("https://Cache.Example/dav/?namespace=team/app", "https://cache.example/dav", "team/app"),
    ("http://[::1]:80/x", "http://[::1]/x", "blobcache"),
    ("http://cache.example?insecure=true", "http://cache.example", "blobcache"),
    ("http://localhost:1/%C3%A4", "http://localhost:1/%C3%A4", "blobcache"),
    ("http://localhost:1/ä", "http://localhost:1/%C3%A4", "blobcache"),
    ("http://localhost:8080/ac?names=sha256&namespace=team", "http://localhost:8080/ac", "team"),
    ("http://localhost:8080/dav?names=path", "http://localhost:8080/dav", "blobcache"),
  ])
  func serversAreNamed(_ text: String, name: String, namespace: String) async throws {
    let (engine, found) = try engine(text)
    #expect(engine is HTTPEngine)
    #expect(engine.name == name)
    #expect(found == RemoteNamespace(namespace))
    await engine.close()
  }

  @Test(arguments: [
    ("valkey://localhost", "valkey://localhost:6379", "blobcache"),
    ("redis://127.0.0.1:1/2?namespace=team/app", "valkey://127.0.0.1:1/2", "team/app"),
    (
      "valkeys://ann@a.example,[::1]:7,b.example:80?password-file=/f", "valkeys://a.example:6379,[::1]:7,b.example:80",
      "blobcache"
    ),
    ("rediss://[::1]/0?server-name=x&largest-object=100", "valkeys://[::1]:6379", "blobcache"),
    ("valkey://cache.example?insecure=true", "valkey://cache.example:6379", "blobcache"),
  ])
  func valkeysAreNamed(_ text: String, name: String, namespace: String) async throws {
    let (engine, found) = try engine(text)
    #expect(engine is ValkeyEngine)
    #expect(engine.name == name)
    #expect(found == RemoteNamespace(namespace))
    await engine.close()
  }

  @Test func privateKeysAreNamedByDigests() throws {
    #expect(try RemoteURL("s3://covers/a?naming=sha256").namespace == RemoteNamespace("a", naming: .sha256))
  }

  @Test(arguments: [
    ("valkey://", "servers", "address"), ("valkey://a:b", "servers", "port"),
    ("valkey://localhost/x", "database", "namespace"),
    ("valkey://localhost/-1", "database", "below 0"), ("valkey://10.0.0.1", "servers", "TLS"),
    ("valkey://ann@localhost", "password", "ann"), ("valkey://ann:pw@localhost", "URL", "password-file"),
    ("valkey://localhost?ca=/f", "ca", "valkeys://"), ("valkeys://localhost?largest-object=1", "largestObject", "64"),
    ("valkey://localhost?largest-object=x", "largest-object", "bytes"),
    ("valkey://localhost?region=a", "region", "those are"),
    ("covers", "URL", "begins with s3://"), ("s3://", "bucket", "no name of a bucket"),
    ("ftp://covers", "URL", "no engine for ftp"), ("s3://covers#a", "URL", "fragment"),
    ("s3://covers?regoin=eu", "regoin", "those are ca, cert, checksums, credentials-file, endpoint"),
    ("s3://covers?region=a&region=b", "region", "twice"), ("s3://covers?region", "region", "no value"),
    ("s3://covers?region=%4", "region", "escape"), ("s3://covers?region=a/b", "region", "no region"),
    ("s3://co vers", "bucket", "no name of a bucket"), ("s3://covers?style=virtual", "style", "path or host"),
    ("s3://covers?endpoint=http://10.0.0.1", "endpoint", "insecure=true"),
    ("s3://covers?endpoint=http://127.example.com", "endpoint", "insecure=true"),
    ("s3://covers?endpoint=10.0.0.1", "endpoint", "https://host:port"),
    ("s3://covers?endpoint=https://10.0.0.1&style=host", "style", "use path"),
    ("s3://covers?insecure=yes", "insecure", "true or false"), ("s3://covers/a//b", "namespace", "empty part"),
    ("s3://covers/../b", "namespace", "of dots"), ("s3://covers?naming=verbatim", "naming", "encoded or sha256"),
    ("s3://key:secret@covers", "URL", "password"), ("s3://key@covers", "URL", "profile=NAME"),
    ("http://user:secret@127.0.0.1/", "URL", "password-file=FILE"),
    ("http://user@127.0.0.1/", "password-file", "goes with a user"),
    ("http://127.0.0.1/?password-file=/f", "password-file", "goes with a user"),
    ("http://user@127.0.0.1/?password-file=/f&token-file=/g", "password-file", "goes with a user"),
    ("http://cache.example/", "endpoint", "insecure=true"), ("http://127.0.0.1:0/", "endpoint", "port"),
    ("http://127.0.0.1:70000/", "endpoint", "port"), ("http://127.0.0.1:8a/", "endpoint", "port"),
    ("http://a_b!/", "endpoint", "host"), ("http://[::1/", "endpoint", ""), ("http:///a", "endpoint", "host:port"),
    ("http://127.0.0.1/a/../b", "endpoint", "no part ."), ("http://127.0.0.1/%zz", "endpoint", "escape"),
    ("http://127.0.0.1/a%20b", "endpoint", "space"),
    ("http://127.0.0.1/?region=a", "region", "no such option"),
    ("http://127.0.0.1/ac?names=md5", "names", "path or sha256"), ("http://127.0.0.1/cas?names=sha256", "names", "/ac"),
    ("http://127.0.0.1/v1/blobs/?names=sha256", "names", "leave out"),
    ("https://user:secret/ss@host/", "URL", "%40"), ("s3://AKIA:secret/rXU@bucket", "URL", "%40"),
    ("https://user:1?secret@host", "URL", "%40"), ("https://user:1234/secret@host/", "URL", "%40"),
    ("valkey://user:1/secret@host/", "URL", "%40"), ("https://user%3Asecret@host/", "URL", "password-file"),
    ("s3://covers?endpoint=https://user:secret/a%40host", "endpoint", "%40"),
    ("https://user:secret/", "endpoint", "port"), ("s3://AKIA:secret/a", "bucket", "no name of a bucket"),
    ("http://127.0.0.1/?ca=/f", "ca", "https://"), ("http://127.0.0.1/?cert=/f&key=/f", "cert", "https://"),
    ("s3://covers?endpoint=http://127.0.0.1&key=/f", "key", "https://"),
    ("https://127.0.0.1/?ca=/f%00g", "ca", "NUL"),
  ])
  func aMistakeIsNamed(_ text: String, setting: String, message: String) {
    let error = #expect(throws: RemoteSettingError.self) { try engine(text) }
    #expect(error?.setting == setting)
    #expect(error?.message.contains(message) == true, "\(String(describing: error))")
    #expect(error?.description.contains("secret") == false)
  }

  @Test(arguments: [
    ("https://127.0.0.1/?ca=/none", "ca"), ("https://127.0.0.1/?cert=/none", "cert"),
    ("https://127.0.0.1/?cert=/a&key=/b", "cert"),
    ("https://127.0.0.1/?key=/none", "cert"),
  ])
  func aFileThatIsNotThereIsNamed(_ text: String, setting: String) throws {
    let url = try RemoteURL(text)
    let error = #expect(throws: RemoteSettingError.self) { try url.makeEngine() }
    #expect(error?.setting == setting)
  }
}

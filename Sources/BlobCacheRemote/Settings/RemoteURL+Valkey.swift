#if Remote
  internal import BlobCache
  internal import SystemPackage
  internal import TextFormats

  extension RemoteURL {
    static func valkey(
      _ place: Substring, _ query: some StringProtocol, user: Substring?, isEncrypted: Bool
    ) throws(RemoteSettingError) -> (Address, RemoteNamespace) {
      let options = try URLOptions(
        query, known: common.union(["namespace", "password-file", "server-name", "largest-object"]))
      let parts = place.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
      var settings = ValkeyEngine.Settings([])
      for text in parts[0].split(separator: ",", omittingEmptySubsequences: false) {
        let server: HTTPEndpoint
        do {
          server = try HTTPEndpoint("http://\(text)")
        } catch {
          throw RemoteSettingError("servers", error.message)
        }
        let isPortGiven = text.last?.isNumber == true && text.contains(":")
        settings.servers.append(ValkeyAddress(server.host, port: isPortGiven ? server.port : 6379))
      }
      if parts.count > 1, !parts[1].isEmpty {
        guard let database = Int(parts[1]) else {
          throw RemoteSettingError(
            "database", "it is a number, and not \(parts[1]); the namespace goes behind ?namespace=")
        }
        settings.database = database
      }
      if let user {
        guard let user = PercentEncoding.decoded(user) else {
          throw RemoteSettingError("URL", "the user has a wrong escape")
        }
        settings.user = user
      }
      settings.password = options["password-file"].map { .file(FilePath($0)) }
      if isEncrypted {
        settings.security = security(options)
      } else if let option = ["ca", "cert", "key", "server-name"].first(where: { options[$0] != nil }) {
        throw RemoteSettingError(option, "it is for TLS, which valkeys:// asks for")
      }
      settings.serverName = options["server-name"]
      if let text = options["largest-object"] {
        guard let count = Int64(text) else {
          throw RemoteSettingError("largest-object", "\(text) is no number of bytes")
        }
        settings.largestObject = count
      }
      settings.allowsPlainText = try options.isTrue("insecure")
      try settings.check()
      return (.valkey(settings), try namespace(options["namespace"] ?? "", options))
    }
  }
#endif

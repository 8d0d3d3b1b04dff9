#if Server
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobCacheRemote
  internal import SystemPackage

  /// The settings of a remote tier, from options or from a directory's entry in a configuration file.
  struct RemoteChoice {
    /// An invalid value. The message contains no secrets.
    struct Mistake: Error {
      let field: ServedField
      let message: String
    }

    private let place: RemoteURL
    private var mode = RemoteTier.Mode.readWrite
    private var writing = RemoteTier.Writing.behind
    private let timeout: Duration?
    private let revalidatesAfter: Duration?
    private let rewritesAfter: Duration?
    /// The time after a signal to stop for which the server waits for the engine's confirmations.
    private let flush: Duration?
    private var announcesChanges = false
    private let sealKeyFile: FilePath?

    /// Parses the settings without reading files or opening connections.
    ///
    /// - Parameter text: A closure that returns the text of a field, or `nil` if the field is absent.
    /// - Returns: The settings, or `nil` if no tier is configured.
    init?(_ text: (ServedField) -> String?) throws(Mistake) {
      func value<Value>(_ field: ServedField, _ forms: String, _ read: (String) -> Value?) throws(Mistake) -> Value? {
        guard let text = text(field) else { return nil }
        guard let value = read(text) else { throw Mistake(field: field, message: "it must be \(forms)") }
        return value
      }
      func span(_ field: ServedField) throws(Mistake) -> Duration? {
        try value(field, TimeSpan.forms + "; above zero") { text in
          TimeSpan(argument: text).flatMap { $0.seconds > 0 ? $0.duration : nil }
        }
      }
      guard let url = text(.remote) else {
        let others = ServedField.allCases.filter { $0 != .name && text($0) != nil }
        guard others.isEmpty else {
          throw Mistake(field: .remote, message: "is missing, and \(others[0].rawValue) is for it")
        }
        return nil
      }
      do {
        place = try RemoteURL(url)
      } catch {
        throw Mistake(field: .remote, message: "\(error)")
      }
      let modes = "readWrite, readOnly or writeOnly"
      if let mode = try value(.remoteMode, modes, RemoteTier.Mode.init(rawValue:)) { self.mode = mode }
      if let writing = try value(.remoteWriting, "behind or through", RemoteTier.Writing.init(rawValue:)) {
        self.writing = writing
      }
      timeout = try span(.remoteTimeout)
      revalidatesAfter = try span(.remoteRevalidate)
      rewritesAfter = try span(.remoteRewrite)
      if let announces = try value(.remoteAnnounce, "true or false", { Bool($0) }) { announcesChanges = announces }
      sealKeyFile = text(.remoteSealKey).map { FilePath($0) }
      flush = try span(.remoteFlush)
    }

    /// - Throws: `Mistake` if a file cannot be used or the engine does not support a setting.
    func tier() throws(Mistake) -> RemoteTier {
      let engine: any RemoteEngine
      do {
        engine = try place.makeEngine()
      } catch {
        throw Mistake(field: .remote, message: "\(error)")
      }
      guard !announcesChanges || engine is any RemoteAnnouncing else {
        throw Mistake(field: .remoteAnnounce, message: "\(engine.name) carries no announcements; a Valkey does")
      }
      var tier = RemoteTier(engine, namespace: place.namespace)
      (tier.mode, tier.writing) = (mode, writing)
      if let timeout {
        tier.deadlines.firstByte = timeout
        tier.deadlines.progress = max(tier.deadlines.progress, timeout)
        tier.deadlines.change = max(tier.deadlines.change, timeout)
      }
      (tier.revalidatesAfter, tier.rewritesAfter) = (revalidatesAfter, rewritesAfter)
      tier.announcesChanges = announcesChanges
      // The time of running requests counts too: ServeTool.
      tier.flushesOnCloseFor = flush ?? ServeTool.shutdownTime
      do {
        tier.sealKey = try sealKeyFile.map { file throws(RemoteSettingError) in try RemoteSealKey(file: file) }
      } catch {
        throw Mistake(field: .remoteSealKey, message: "\(error)")
      }
      return tier
    }
  }
#endif

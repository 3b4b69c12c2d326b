class Rewake < Formula
  desc "Coding agent for the terminal that survives crashes"
  homepage "REPOSITORY"
  version "VERSION"
  license any_of: ["MIT", "Apache-2.0"]

  livecheck do
    url :stable
    strategy :github_latest
  end

  on_macos do
    on_arm do
      url "BASE/download/vVERSION/rewake-VERSION-aarch64-apple-darwin.tar.gz"
      sha256 "SUM:aarch64-apple-darwin"
    end
    on_intel do
      url "BASE/download/vVERSION/rewake-VERSION-x86_64-apple-darwin.tar.gz"
      sha256 "SUM:x86_64-apple-darwin"
    end
  end

  on_linux do
    on_arm do
      url "BASE/download/vVERSION/rewake-VERSION-aarch64-unknown-linux-musl.tar.gz"
      sha256 "SUM:aarch64-unknown-linux-musl"
    end
    on_intel do
      url "BASE/download/vVERSION/rewake-VERSION-x86_64-unknown-linux-musl.tar.gz"
      sha256 "SUM:x86_64-unknown-linux-musl"
    end
  end

  def install
    bin.install "rewake"
    man1.install "rewake.1"
    bash_completion.install "completions/rewake.bash" => "rewake"
    zsh_completion.install "completions/rewake.zsh" => "_rewake"
    fish_completion.install "completions/rewake.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/rewake --version")
  end
end

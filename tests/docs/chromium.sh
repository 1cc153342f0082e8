#!/bin/sh
# Prints the first Chromium of PATH. Else prints one line, why there is none, and fails.
command -v chromium || command -v chromium-browser || command -v google-chrome || {
    echo "no Chromium found (Debian's package is chromium)"
    exit 1
}

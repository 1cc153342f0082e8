#!/bin/sh
# Ends well where a Java is found that runs Spark: version 17 or newer, JAVA_HOME's before
# PATH's, as Spark looks. Else prints one line, why not.
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null; then
    echo "no Java found (Spark needs version 17 or newer)"
    exit 1
fi
version=$("$java" -version 2>&1 | sed -n 's/^[^"]*version "\([0-9]*\).*/\1/p')
if ! [ "${version:-0}" -ge 17 ]; then
    echo "Java ${version:-of an unknown version} found (Spark needs version 17 or newer)"
    exit 1
fi

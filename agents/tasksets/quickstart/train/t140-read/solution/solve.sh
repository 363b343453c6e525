#!/bin/bash
set -e
cd /app
cat item.txt
echo gentle > copy.txt

#!/bin/bash
set -e
cd /app
echo rabbit > result.txt

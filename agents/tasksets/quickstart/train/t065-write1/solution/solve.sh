#!/bin/bash
set -e
cd /app
echo shark > names.txt

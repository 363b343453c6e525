#!/bin/bash
set -e
cd /app
echo butter > key.txt

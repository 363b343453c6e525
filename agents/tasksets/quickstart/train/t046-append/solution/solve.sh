#!/bin/bash
set -e
cd /app
echo mountain >> key.txt
echo strong > result.txt
